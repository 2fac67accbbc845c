// Changes JSON as JSON: changed bytes seldom are any. For targets whose inputs have to be whole to get far.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

namespace {

using nlohmann::json;

void add_all(json& value, std::vector<json*>& all) {
  all.push_back(&value);
  if (value.is_structured())
    for (json& inside : value) add_all(inside, all);
}

const json& one_of(const std::vector<json>& some, std::mt19937& random) { return some[random() % some.size()]; }

void change(json& value, const std::vector<json*>& all, std::mt19937& random) {
  static const std::vector<json> numbers{0,          1,          -1,   2,     0.5,  1e-6, 1e15,
                                         2147483647, 2147483648, 1e18, 1e308, 1000, 3,    18446744073709551615U};
  static const std::vector<json> others{nullptr,    true,          false,          "", "x",
                                        "a\x1b\nb", json::array(), json::object(), 7,  -1};
  const unsigned how = random() % 8;
  if (how == 0) {
    value = one_of(others, random);
  } else if (how == 1) {
    value = json(*all[random() % all.size()]);  // of another place
  } else if (value.is_number()) {
    value = one_of(numbers, random);
  } else if (value.is_array() && !value.empty() && how < 5) {
    value.erase(random() % value.size());
  } else if (value.is_array() && !value.empty()) {
    value.push_back(json(value[random() % value.size()]));
  } else if (value.is_object() && !value.empty() && how < 4) {
    value.erase(std::next(value.begin(), static_cast<std::ptrdiff_t>(random() % value.size())));
  } else if (value.is_string()) {
    std::vector<json> texts;
    for (const json* each : all)
      if (each->is_string()) texts.push_back(*each);
    value = one_of(texts, random);
  }
}

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  std::mt19937 random(seed);
  json whole = json::parse(data, data + size, nullptr, false);
  if (whole.is_discarded() || random() % 8 == 0) return LLVMFuzzerMutate(data, size, most);
  for (unsigned left = 1 + random() % 4; left > 0; --left) {
    std::vector<json*> all;
    add_all(whole, all);
    change(*all[random() % all.size()], all, random);
  }
  const std::string text = whole.dump(-1, ' ', false, json::error_handler_t::replace);
  if (text.size() > most) return LLVMFuzzerMutate(data, size, most);
  std::ranges::copy(text, data);
  return text.size();
}
