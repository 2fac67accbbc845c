// The worker's kernels on this device against their functors on the host, for all types: what tests on the fakes prove
// holds for the device only as far as both agree. A program of its own without a test library, since GPU hosts may have
// none. Prints what differs; exit status 1 then.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "bench/backends/nccl/handles.hpp"
#include "bench/backends/nccl/kernels.hpp"
#include "bench/model/data_type.hpp"
#include "bench/model/expected.hpp"

namespace {

using namespace p5;
using namespace p5::nccl;

constexpr std::uint64_t elements = 100'003;  // no multiple of a block
int differences = 0;

void expect(bool holds, const std::string& what) {
  if (holds) return;
  ++differences;
  std::printf("differs: %s\n", what.c_str());
}

std::vector<std::byte> fetched(const void* from, std::size_t bytes) {
  std::vector<std::byte> here(bytes);
  check(cudaMemcpy(here.data(), from, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
  return here;
}

Found compared(cudaStream_t stream, DataType type, const std::vector<std::byte>& data, const Segment& segment,
               const Pattern& pattern) {
  const DeviceMemory on_device = make_device_memory(data.size()), found = make_device_memory(sizeof(Found));
  const Found none;
  check(cudaMemcpy(on_device.get(), data.data(), data.size(), cudaMemcpyHostToDevice), "cudaMemcpy");
  check(cudaMemcpy(found.get(), &none, sizeof none, cudaMemcpyHostToDevice), "cudaMemcpy");
  compare(stream, type, static_cast<const std::byte*>(on_device.get()), segment, pattern,
          static_cast<Found*>(found.get()));
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  Found result;
  std::memcpy(&result, fetched(found.get(), sizeof result).data(), sizeof result);
  return result;
}

template <class T>
Found compared_here(const std::vector<std::byte>& data, const Segment& segment, const Pattern& pattern) {
  Found found;
  const T* const values = reinterpret_cast<const T*>(data.data());
  for (std::uint64_t i = 0; i < segment.elements; ++i) {
    const T wanted = segment.source == Segment::reduced ? reduced_element<T>(pattern, i)
                                                        : input_element<T>(pattern, segment.source, i);
    if (distance_in_units<T>(wanted, values[i]) <= tolerance<T>(pattern)) continue;
    ++found.wrong;
    found.lowest = std::min<unsigned long long>(found.lowest, i);
  }
  return found;
}

template <class T>
void check_type(cudaStream_t stream, DataType type, const Pattern& pattern, const std::string& name,
                std::mt19937& random) {
  const std::size_t bytes = elements * sizeof(T);
  const DeviceMemory on_device = make_device_memory(bytes);
  fill(stream, type, static_cast<std::byte*>(on_device.get()), elements, pattern, 1);
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  std::vector<T> here(elements);
  for (std::uint64_t i = 0; i < elements; ++i) here[i] = input_element<T>(pattern, 1, i);
  const std::vector<std::byte> there = fetched(on_device.get(), bytes);
  expect(std::memcmp(there.data(), here.data(), bytes) == 0, "fill of " + name);

  for (const int source : {1, Segment::reduced}) {
    if (source == Segment::reduced && !pattern.reduces) continue;
    const Segment segment{.output_offset = 0, .elements = elements, .source = source, .source_offset = 0};
    std::vector<std::byte> right = there;
    if (source == Segment::reduced)
      for (std::uint64_t i = 0; i < elements; ++i)
        reinterpret_cast<T*>(right.data())[i] = reduced_element<T>(pattern, i);
    for (const int wrong : {0, 1, 777}) {
      std::vector<std::byte> data = right;
      for (int i = 0; i < wrong; ++i) data[random() % bytes] ^= std::byte{1 << (random() % 8)};
      const Found gpu = compared(stream, type, data, segment, pattern);
      const Found cpu = compared_here<T>(data, segment, pattern);
      const std::string what =
          name + (source == Segment::reduced ? ", result, " : ", input, ") + std::to_string(wrong) + " bits turned";
      expect(gpu.wrong == cpu.wrong && (gpu.wrong == 0 || gpu.lowest == cpu.lowest), "comparison of " + what);
      expect(wrong > 0 || gpu.wrong == 0, "right data of " + what + " are called wrong");
    }
  }
}

void check_guarded(cudaStream_t stream) {
  const GuardedBuffers layout{nullptr, 3, 4096, 512, 2048};
  const DeviceMemory memory = make_device_memory(3 * 4096), found = make_device_memory(sizeof(Found));
  GuardedBuffers buffers = layout;
  buffers.memory = static_cast<std::byte*>(memory.get());
  check(cudaMemsetAsync(memory.get(), 0, 3 * 4096, stream), "cudaMemsetAsync");
  fill_guards(stream, buffers);
  for (const bool spoilt : {false, true}) {
    const Found none;
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    check(cudaMemcpy(found.get(), &none, sizeof none, cudaMemcpyHostToDevice), "cudaMemcpy");
    if (spoilt) check(cudaMemsetAsync(buffers.memory + 4096 + 511, 1, 1, stream), "cudaMemsetAsync");
    check_guards(stream, buffers, static_cast<Found*>(found.get()));
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    Found result;
    std::memcpy(&result, fetched(found.get(), sizeof result).data(), sizeof result);
    expect(result.wrong == (spoilt ? 1u : 0u), spoilt ? "a spoilt guard byte" : "guards that nobody touched");
  }
}

}  // namespace

int main() {
  register_twins();
  check(cudaSetDevice(0), "cudaSetDevice");
  const Stream stream = make_stream();
  std::mt19937 random(20261121);
  int checked = 0;
  for (std::size_t number = 0; number < data_type_names().size(); ++number) {
    const auto type = static_cast<DataType>(number);
    const auto with = [&](const Pattern& pattern, std::string_view what) {
      const std::string name = std::string(name_of(type)) + " " + std::string(what);
      with_type(type, [&]<class T>() { check_type<T>(stream.get(), type, pattern, name, random); });
      ++checked;
    };
    with({.seed = 17 + number, .ranks = 4}, "copied");
    for (const ReduceOp operation : {ReduceOp::sum, ReduceOp::prod, ReduceOp::min, ReduceOp::max, ReduceOp::avg})
      with({.seed = 23 + number, .ranks = 4, .reduces = true, .op = operation}, name_of(operation));
  }
  check_guarded(stream.get());
  std::printf("%d types and operations, %d differences\n", checked, differences);
  return differences == 0 ? 0 : 1;
}
