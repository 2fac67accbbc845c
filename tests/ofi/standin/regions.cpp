#include "tests/ofi/standin/regions.hpp"

#include <dlfcn.h>

#include <map>

namespace standin {

namespace {

std::map<std::uint64_t, Region>& all() {
  static auto* const regions = new std::map<std::uint64_t, Region>;
  return *regions;
}

template <class Call>
Call driver_call(const char* name) {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  return library ? reinterpret_cast<Call>(dlsym(library, name)) : nullptr;
}

}  // namespace

std::byte* Region::at(std::uint64_t address, std::size_t count) const {
  const auto first = reinterpret_cast<std::uint64_t>(begin);
  return address >= first && address + count <= first + bytes ? real + (address - first) : nullptr;
}

std::uint64_t add_region(const Region& region) {
  static std::uint64_t numbers = 0;
  const std::uint64_t key = ++numbers | (region.gpu ? key_of_gpu : 0);
  all()[key] = region;
  return key;
}

void remove_region(std::uint64_t key) { all().erase(key); }

const Region* find_region(std::uint64_t key) {
  const auto found = all().find(key);
  return found == all().end() ? nullptr : &found->second;
}

std::size_t count_regions() { return all().size(); }

bool has_gpu() {
  const auto init = driver_call<int (*)(unsigned)>("cuInit");
  return init && init(0) == 0;
}

std::byte* real_gpu_memory(const void* address, std::size_t bytes, int& gpu) {
  const auto find = driver_call<void* (*)(const void*, std::size_t, int*)>("p5bench_fake_gpu_memory");
  return find ? static_cast<std::byte*>(find(address, bytes, &gpu)) : nullptr;
}

}  // namespace standin
