// The knob files, read as strictly as the platform files.
#include "tuner/knobs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>

#include "bench/base/embedded.hpp"
#include "bench/base/error.hpp"
#include "bench/base/names.hpp"

namespace p5::tuner {

using nlohmann::json;

namespace {

constexpr std::array transports{"any", "net", "efa", "nvls"};
const std::vector<std::string>& fields() {
  static const std::vector<std::string> all{"name",      "since",       "step",      "values",
                                            "default",   "summary",     "platforms", "least_nodes",
                                            "transport", "collectives", "risk",      "source"};
  return all;
}

class Entry {
 public:
  Entry(std::string_view file, const json& object) : file_(file), object_(object) {
    if (!object_.is_object()) throw refused("an entry", "has to be an object");
    if (object_.contains("name") && object_["name"].is_string()) name_ = object_["name"].get<std::string>();
    for (const auto& [field, value] : object_.items())
      if (std::ranges::find(fields(), field) == fields().end())
        throw refused(field, "is an " + unknown_name("field", field, fields()));
  }

  UsageError refused(const std::string& field, const std::string& why) const {
    return UsageError(fmt::format("knob file {}: {}'{}' {}", file_, name_.empty() ? "" : name_ + ": ", field, why));
  }

  const json& at(const std::string& field) const {
    if (!object_.contains(field)) throw refused(field, "is missing");
    return object_[field];
  }

  std::string text(const std::string& field, bool may_be_empty = false) const {
    const json& value = at(field);
    if (!value.is_string() || (!may_be_empty && value.get_ref<const std::string&>().empty()))
      throw refused(field,
                    fmt::format("has to be a text{}, not {}", may_be_empty ? "" : " that is not empty", value.dump()));
    return value.get<std::string>();
  }

  int whole(const std::string& field, int least, int most) const {
    const json& value = at(field);
    if (!value.is_number_integer() || value.get<std::int64_t>() < least || value.get<std::int64_t>() > most)
      throw refused(field, fmt::format("has to be a whole number from {} to {}, not {}", least, most, value.dump()));
    return value.get<int>();
  }

  std::vector<std::string> list(const std::string& field) const {
    const json& value = at(field);
    std::vector<std::string> texts;
    if (value.is_array())
      for (const json& each : value)
        if (each.is_string() && !each.get_ref<const std::string&>().empty()) texts.push_back(each);
    if (!value.is_array() || texts.size() != value.size())
      throw refused(field, fmt::format("has to be a list of texts, not {}", value.dump()));
    return texts;
  }

 private:
  std::string_view file_;
  const json& object_;
  std::string name_;
};

bool is_variable(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  }) && !(name[0] >= '0' && name[0] <= '9');
}

Knob read_knob(const Entry& entry) {
  Knob knob;
  knob.name = entry.text("name");
  if (!is_variable(knob.name)) throw entry.refused("name", "has to be the name of a variable");
  knob.summary = entry.text("summary");
  knob.since = entry.text("since", true);
  if (!knob.since.empty() && nccl_version_of(knob.since) == 0)
    throw entry.refused("since", "has to be a version of NCCL or empty");
  knob.step = entry.whole("step", 2, 4);
  knob.values = entry.list("values");
  knob.standard = entry.text("default", true);
  if (std::ranges::all_of(knob.values, [&](const std::string& value) { return value == knob.standard; }))
    throw entry.refused("values", "has to hold something besides the default");
  knob.platforms = entry.list("platforms");
  knob.least_nodes = entry.whole("least_nodes", 1, 1 << 20);
  const std::string transport = entry.text("transport");
  const auto found = std::ranges::find(transports, transport);
  if (found == transports.end())
    throw entry.refused("transport",
                        "is an " + unknown_name("transport", transport,
                                                std::vector<std::string>(transports.begin(), transports.end())));
  knob.transport = static_cast<Transport>(found - transports.begin());
  knob.collectives = entry.list("collectives");
  knob.risk = entry.text("risk");
  knob.source = entry.text("source");
  return knob;
}

std::vector<Knob> load_all() {
  std::vector<Knob> all;
  for (const embedded::File& file : embedded::knob_files()) {
    const std::vector<Knob> some = parse_knobs(file.name, file.text);
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

}  // namespace

std::vector<Knob> parse_knobs(std::string_view file, std::string_view text) {
  json list;
  try {
    list = json::parse(text);
  } catch (const json::exception& problem) {
    throw UsageError(fmt::format("knob file {}: not JSON: {}", file, problem.what()));
  }
  if (!list.is_array()) throw UsageError(fmt::format("knob file {}: it has to be a list", file));
  std::vector<Knob> all;
  for (const json& object : list) {
    const Entry entry(file, object);
    all.push_back(read_knob(entry));
    if (std::ranges::count(all, all.back().name, &Knob::name) > 1) throw entry.refused("name", "is there twice");
  }
  return all;
}

const std::vector<Knob>& knobs() {
  static const std::vector<Knob> all = load_all();
  return all;
}

bool applies(const Knob& knob, const KnobScope& place) {
  if (place.nodes < knob.least_nodes) return false;
  if (!knob.since.empty() && place.nccl_version < nccl_version_of(knob.since)) return false;
  if (knob.transport == Transport::efa && !place.efa) return false;
  if (knob.transport == Transport::nvls && !place.nvls) return false;
  if (knob.transport == Transport::net && place.nodes < 2) return false;
  const auto measured = [&](const std::string& each) {
    return std::ranges::find(place.collectives, each) != place.collectives.end();
  };
  if (!knob.collectives.empty() && !place.collectives.empty() && std::ranges::none_of(knob.collectives, measured))
    return false;
  return knob.platforms.empty() || std::ranges::any_of(knob.platforms, [&](const std::string& beginning) {
           return place.platform.starts_with(beginning);
         });
}

std::vector<std::string> values_to_try(const Knob& knob) {
  // NCCL and its plugins take names in any case.
  const std::string standard = lower(knob.standard);
  std::vector<std::string> values;
  for (const std::string& value : knob.values)
    if (lower(value) != standard) values.push_back(value);
  return values;
}

int nccl_version_of(std::string_view text) {
  std::array<int, 3> parts{};
  std::size_t count = 0;
  for (const std::string& part : split(text, '.')) {
    if (count == parts.size()) return 0;
    const auto [end, problem] = std::from_chars(part.data(), part.data() + part.size(), parts[count++]);
    if (problem != std::errc() || end != part.data() + part.size()) return 0;
  }
  const auto [major, minor, patch] = parts;
  if (count < 2 || major < 1 || minor < 0 || minor > 99 || patch < 0 || patch > 99) return 0;
  return major == 2 && minor <= 8 ? major * 1000 + minor * 100 + patch : major * 10000 + minor * 100 + patch;
}

}  // namespace p5::tuner
