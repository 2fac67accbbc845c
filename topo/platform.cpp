// The platform files, read strictly: whoever adds an instance type learns of a mistake by file and field.
#include "topo/platform.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "bench/embedded.hpp"
#include "bench/error.hpp"
#include "bench/names.hpp"

namespace p5::topo {

using nlohmann::json;

namespace {

// The fields of one object. Every field has to be there, in bounds and known.
class Fields {
 public:
  Fields(std::string_view file, const json& object, std::string prefix = "")
      : file_(file), object_(object), prefix_(std::move(prefix)) {
    if (!object_.is_object()) throw refused(prefix_, "has to be an object");
  }

  UsageError refused(std::string_view field, std::string_view why) const {
    return UsageError(
        fmt::format("platform file {}: {} {}", file_, field.empty() ? "it" : fmt::format("'{}'", field), why));
  }

  const json& at(const std::string& field) {
    known_.insert(field);
    if (!object_.contains(field)) throw refused(prefix_ + field, "is missing");
    return object_[field];
  }

  std::string text(const std::string& field) {
    const json& value = at(field);
    if (!value.is_string() || value.get_ref<const std::string&>().empty())
      throw refused(prefix_ + field, fmt::format("has to be a text that is not empty, not {}", value.dump()));
    return value.get<std::string>();
  }

  double number(const std::string& field, double least, double most) {
    const json& value = at(field);
    if (!value.is_number() || !(value.get<double>() >= least && value.get<double>() <= most))
      throw refused(prefix_ + field,
                    fmt::format("has to be a number from {} to {}, not {}", least, most, value.dump()));
    return value.get<double>();
  }

  int whole(const std::string& field, int least, int most) {
    const double value = number(field, least, most);
    if (value != std::floor(value))
      throw refused(prefix_ + field, fmt::format("has to be a whole number, not {}", value));
    return static_cast<int>(value);
  }

  GBps rate(const std::string& field) { return {number(field, 0, 1e6)}; }
  Seconds latency(const std::string& field) { return {number(field, 0, 1e6) * 1e-6}; }

  void refuse_unknown() const {
    const std::vector<std::string> candidates(known_.begin(), known_.end());
    for (const auto& [field, value] : object_.items())
      if (!known_.contains(field))
        throw refused(prefix_ + field, fmt::format("is an {}", unknown_name("field", field, candidates)));
  }

 private:
  std::string_view file_;
  const json& object_;
  std::string prefix_;
  std::set<std::string> known_;
};

std::optional<double> dollars(Fields& fields) {
  if (fields.at("dollars_per_hour").is_null()) return std::nullopt;
  return fields.number("dollars_per_hour", 0, 1e6);
}

std::vector<std::string> sources(Fields& fields) {
  std::vector<std::string> list;
  const json& value = fields.at("sources");
  for (const json& source : value)
    if (source.is_string()) list.push_back(source);
  if (!value.is_array() || list.empty() || list.size() != value.size())
    throw fields.refused("sources", "has to be a list of texts, at least one: a fact without a source is a rumour");
  return list;
}

void read_latencies(std::string_view file, Fields& fields, Platform& platform) {
  Fields simulator(file, fields.at("simulator"), "simulator.");
  platform.link_latency = simulator.latency("link_latency_us");
  platform.nic_latency = simulator.latency("nic_latency_us");
  simulator.refuse_unknown();
}

void read_parts(Fields& fields, Platform& platform) {
  platform.gpus = fields.whole("gpus", 1, 1024);
  platform.gpu = fields.text("gpu");
  platform.gpu_memory = MiB(static_cast<std::uint64_t>(fields.whole("gpu_memory_mib", 1, 1 << 30)));
  platform.links_per_gpu = fields.whole("links_per_gpu", 0, 1024);
  platform.link_rate = fields.rate("link_rate_gb_per_s");
  platform.link_rate_raw = fields.rate("link_rate_raw_gb_per_s");
  platform.link_rate_achievable = fields.rate("link_rate_achievable_gb_per_s");
  platform.nics = fields.whole("nics", 0, 1024);
  platform.nic_rate = fields.rate("nic_rate_gb_per_s");
  platform.nic_efficiency = fields.number("nic_efficiency", 0, 1);
}

void check_consistent(const Fields& fields, std::string_view file, const Platform& platform) {
  if (file != platform.name + ".json") throw fields.refused("name", "has to be the name of the file without '.json'");
  if (platform.link_rate_achievable > platform.link_rate || platform.link_rate > platform.link_rate_raw)
    throw fields.refused("link_rate_gb_per_s", "has to lie between the achievable rate and the raw one");
  if (platform.links_per_gpu > 0 && !(platform.link_rate_achievable.count > 0))
    throw fields.refused("link_rate_achievable_gb_per_s", "has to be above zero where there are links");
  if (platform.nics > 0 && !(platform.nic_rate.count > 0 && platform.nic_efficiency > 0))
    throw fields.refused("nic_rate_gb_per_s", "and 'nic_efficiency' have to be above zero where there are NICs");
}

std::vector<Platform> load_all() {
  std::vector<Platform> all;
  for (const embedded::File& file : embedded::platform_files()) all.push_back(parse_platform(file.name, file.text));
  std::sort(all.begin(), all.end(), [](const Platform& a, const Platform& b) { return a.name < b.name; });
  return all;
}

}  // namespace

Platform parse_platform(std::string_view file, std::string_view text) {
  json object;
  try {
    object = json::parse(text);
  } catch (const json::exception& problem) {
    throw UsageError(fmt::format("platform file {}: not JSON: {}", file, problem.what()));
  }
  Fields fields(file, object);
  Platform platform;
  platform.name = fields.text("name");
  platform.summary = fields.text("summary");
  read_parts(fields, platform);
  platform.dollars_per_hour = dollars(fields);
  platform.price_date = fields.text("price_date");
  read_latencies(file, fields, platform);
  platform.sources = sources(fields);
  fields.refuse_unknown();
  check_consistent(fields, file, platform);
  return platform;
}

const std::vector<Platform>& platforms() {
  static const std::vector<Platform> all = load_all();
  return all;
}

std::vector<std::string> platform_names() {
  std::vector<std::string> names;
  for (const Platform& platform : platforms()) names.push_back(platform.name);
  return names;
}

const Platform& find_platform(std::string_view name) {
  if (const Platform* platform = platform_of_instance_type(name)) return *platform;
  throw UsageError(unknown_name("platform", name, platform_names()));
}

const Platform* platform_of_instance_type(std::string_view instance_type) {
  const auto at = std::find_if(platforms().begin(), platforms().end(),
                               [&](const Platform& platform) { return platform.name == instance_type; });
  return at == platforms().end() ? nullptr : &*at;
}

}  // namespace p5::topo
