#include "bench/backends/ofi/fabric.hpp"

#include <fmt/format.h>
#include <rdma/fi_errno.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <tuple>
#include <utility>

#include "bench/backends/worker_program.hpp"
#include "bench/base/error.hpp"
#include "bench/base/names.hpp"

namespace p5::ofi {

namespace {

// API version to request. The EFA provider uses RDMA read and write only for applications that ask for API 1.18 or
// later. An older library rejects a version that it does not know.
std::uint32_t api_version() { return std::min<std::uint32_t>(fi_version(), FI_VERSION(1, 18)); }

std::string text_of(std::uint32_t version) { return fmt::format("{}.{}", FI_MAJOR(version), FI_MINOR(version)); }

std::string base_name(const fi_info& info) {
  const std::string name = info.fabric_attr->prov_name;
  return name.substr(0, name.find(';'));
}

// Preference of a provider, lower is better. Shared memory connects one host only, and EFA's own shared memory is no
// NIC.
std::size_t preference(const fi_info& info) {
  constexpr std::array<std::string_view, 6> known{"efa", "cxi", "verbs", "tcp", "sockets", "shm"};
  const std::string name = base_name(info);
  return static_cast<std::size_t>(std::ranges::find(known, name) - known.begin());
}

bool is_efa(const fi_info& info) { return base_name(info) == "efa"; }

std::string domain_of(const fi_info& info) { return info.domain_attr->name; }

// The kernel's device name. EFA appends a suffix for the endpoint type to its domain names.
std::string device_of(const fi_info& info) {
  if (info.nic && info.nic->device_attr && info.nic->device_attr->name) return info.nic->device_attr->name;
  constexpr std::string_view suffix = "-rdm";
  std::string name = domain_of(info);
  if (name.ends_with(suffix)) name.resize(name.size() - suffix.size());
  return name;
}

auto pci_of(const fi_info& info) {
  const fid_nic* const nic = info.nic;
  if (!nic || !nic->bus_attr || nic->bus_attr->bus_type != FI_BUS_PCI) return std::tuple(0, 0, 0, 0);
  const fi_pci_attr& pci = nic->bus_attr->attr.pci;
  return std::tuple(int{pci.domain_id}, int{pci.bus_id}, int{pci.device_id}, int{pci.function_id});
}

// FI_OPT_CUDA_API_PERMITTED of libfabric 1.18 and later; older headers have no such name.
constexpr int option_cuda_api_permitted = 10;

// Offers with all these capabilities, or null. `provider`: the only one to query; "" for all.
Info offers_with(std::uint64_t caps, const std::string& provider) {
  const Info hints(fi_allocinfo());
  if (!provider.empty()) hints->fabric_attr->prov_name = strdup(provider.c_str());  // fi_freeinfo() frees it
  hints->caps = FI_MSG | FI_TAGGED | caps;
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->ep_attr->type = FI_EP_RDM;
  hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_VIRT_ADDR | FI_MR_PROV_KEY;
  if ((caps & FI_HMEM) != 0) hints->domain_attr->mr_mode |= FI_MR_HMEM;
  hints->domain_attr->threading = FI_THREAD_DOMAIN;
  hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
  fi_info* found = nullptr;
  const int result = fi_getinfo(api_version(), nullptr, nullptr, 0, hints.get(), &found);
  if (result == -FI_ENODATA) return {};
  check(result, "fi_getinfo");
  return Info(found);
}

// Offers with RMA writes if a provider has them, else without.
Info all_offers(const std::string& provider, bool gpu_memory) {
  const std::uint64_t needed = gpu_memory ? FI_HMEM : 0;
  for (const std::uint64_t wanted : {std::uint64_t{FI_RMA}, std::uint64_t{0}})
    if (Info found = offers_with(needed | wanted, provider)) return found;
  if (gpu_memory)
    throw CaseError(fmt::format("libfabric {} has no endpoint that takes GPU memory (FI_HMEM)", text_of(fi_version())));
  if (!provider.empty())
    throw CaseError(fmt::format(
        "the kernel shows devices of {0}, but libfabric {1}, asked for API {2}, offers no endpoint on them; see what "
        "fi_info -p {0} says, put the EFA installer's libfabric first in LD_LIBRARY_PATH, or set FI_PROVIDER=tcp to "
        "measure TCP instead",
        provider, text_of(fi_version()), text_of(api_version())));
  const char* const wanted = std::getenv("FI_PROVIDER");
  throw CaseError(fmt::format("libfabric has no reliable endpoint with tags{}; fi_info shows what it has",
                              wanted ? fmt::format(" of FI_PROVIDER={}", wanted) : ""));
}

// One offer per domain: libfabric lists a device again for each protocol and address.
std::vector<const fi_info*> domains_of(const fi_info* offers) {
  std::vector<const fi_info*> domains;
  for (const fi_info* info = offers; info; info = info->next) {
    if (!domains.empty() && preference(*info) > preference(*domains.front())) continue;
    if (!domains.empty() && preference(*info) < preference(*domains.front())) domains.clear();
    const auto same = [&](const fi_info* other) { return domain_of(*other) == domain_of(*info); };
    if (std::ranges::none_of(domains, same)) domains.push_back(info);
  }
  return domains;
}

std::uint64_t clock_ns() {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count());
}

}  // namespace

void check(std::int64_t result, std::string_view call) {
  if (result >= 0) return;
  throw CaseError(fmt::format("{}: {} (libfabric error {})", call, fi_strerror(static_cast<int>(-result)), -result));
}

namespace {

using Domains = std::vector<const fi_info*>;

// Domains by place on the host; null where none is. Those whose names `names` does not have take what is left, in
// order.
Domains by_place(const Domains& domains, const std::vector<std::string>& names) {
  Domains places(std::max(names.size(), domains.size()));
  Domains unnamed;
  for (const fi_info* info : domains) {
    const auto name = std::ranges::find(names, device_of(*info));
    if (name == names.end())
      unnamed.push_back(info);
    else
      places[static_cast<std::size_t>(name - names.begin())] = info;
  }
  for (const fi_info* info : unnamed) *std::ranges::find(places, nullptr) = info;
  return places;
}

// This rank's part of the places, with at least one NIC.
ChosenNics share_of(const Domains& places, const protocol::LocalRank& local) {
  const auto at = static_cast<std::size_t>(local.local_rank), ranks = static_cast<std::size_t>(local.local_ranks);
  const std::size_t first = at * places.size() / ranks, last = std::max(first + 1, (at + 1) * places.size() / ranks);
  ChosenNics chosen{.count = places.size()};
  for (std::size_t i = first; i < last; ++i) chosen.places.push_back(i % places.size());
  const auto exists = [&](std::size_t place) { return places[place] != nullptr; };
  if (std::ranges::none_of(chosen.places, exists)) {
    const std::size_t wanted = chosen.places.front();
    std::size_t nearest = places.size();
    for (std::size_t place = 0; place < places.size(); ++place) {
      const auto distance = [&](std::size_t to) { return to < wanted ? wanted - to : to - wanted; };
      if (exists(place) && (nearest == places.size() || distance(place) < distance(nearest))) nearest = place;
    }
    chosen.places.front() = nearest;
  }
  for (const std::size_t place : chosen.places)
    chosen.infos.emplace_back(exists(place) ? fi_dupinfo(places[place]) : nullptr);
  return chosen;
}

}  // namespace

ChosenNics choose_nics(const protocol::LocalRank& local, bool gpu_memory) {
  const char* const wanted = std::getenv("FI_PROVIDER");
  const Info offers = all_offers(wanted && *wanted ? "" : local.provider, gpu_memory);
  Domains domains = domains_of(offers.get());
  const auto is_nic = [](const fi_info* info) { return pci_of(*info) != std::tuple(0, 0, 0, 0); };
  if (std::ranges::any_of(domains, is_nic)) {
    std::erase_if(domains, [&](const fi_info* info) { return !is_nic(info); });
    std::ranges::stable_sort(domains, {}, [](const fi_info* info) { return pci_of(*info); });
    return share_of(by_place(domains, local.nics), local);
  }
  Domains mine;
  for (const std::string& name : local.interfaces)
    if (const auto found = std::ranges::find(domains, name, [](const fi_info* info) { return domain_of(*info); });
        found != domains.end())
      mine.push_back(*found);
  const auto real = std::ranges::find_if(domains, [](const fi_info* info) { return domain_of(*info) != "lo"; });
  if (mine.empty()) mine.push_back(real == domains.end() ? domains.front() : *real);
  return share_of(mine, {.local_rank = 0, .local_ranks = 1});
}

std::vector<std::string> pci_addresses(const ChosenNics& nics) {
  std::vector<std::string> all;
  for (const Info& info : nics.infos) {
    if (!info || pci_of(*info) == std::tuple(0, 0, 0, 0)) continue;
    const auto [domain, bus, device, function] = pci_of(*info);
    all.push_back(fmt::format("{:04x}:{:02x}:{:02x}.{:x}", domain, bus, device, function));
  }
  return all;
}

std::string name_of_library(const fi_info& info) {
  return fmt::format("libfabric {}, asked for API {}, {}", text_of(fi_version()), text_of(api_version()),
                     info.fabric_attr->prov_name);
}

Registration::Registration(fid_domain* domain, const fi_info& info, std::byte* memory, std::size_t bytes,
                           std::optional<int> gpu, bool is_target, std::uint64_t key) {
  if (!is_target && !gpu && (info.domain_attr->mr_mode & FI_MR_LOCAL) == 0) return;
  const iovec place{.iov_base = memory, .iov_len = bytes};
  fi_mr_attr attributes{};
  attributes.mr_iov = &place;
  attributes.iov_count = 1;
  attributes.access = FI_SEND | FI_RECV | ((info.caps & FI_RMA) != 0 ? FI_WRITE : 0);
  if (is_target) attributes.access |= FI_REMOTE_WRITE;
  attributes.requested_key = key;
  if (gpu) {
    attributes.iface = FI_HMEM_CUDA;
    attributes.device.cuda = *gpu;
  }
  fid_mr* region = nullptr;
  check(fi_mr_regattr(domain, &attributes, 0, &region),
        gpu ? fmt::format("fi_mr_regattr of {} bytes in the memory of GPU {}", bytes, *gpu) : "fi_mr_regattr");
  region_.reset(region);
  if ((info.domain_attr->mr_mode & FI_MR_VIRT_ADDR) == 0) begin_ = memory;
}

Target Registration::target(const std::byte* at) const {
  return {.address = begin_ ? static_cast<std::uint64_t>(at - begin_) : reinterpret_cast<std::uint64_t>(at),
          .key = fi_mr_key(region_.get())};
}

Endpoint::Endpoint(Info info, protocol::SharedPage& page, bool gpu_memory) : info_(std::move(info)), page_(&page) {
  const auto make = [](auto& owned, std::string_view call, const auto& open) {
    typename std::remove_reference_t<decltype(owned)>::pointer made = nullptr;
    check(open(&made), call);
    owned.reset(made);
  };
  make(fabric_, "fi_fabric", [&](auto made) { return fi_fabric(info_->fabric_attr, made, nullptr); });
  make(domain_, "fi_domain", [&](auto made) { return fi_domain(fabric_.get(), info_.get(), made, nullptr); });
  fi_cq_attr queue{};
  queue.format = FI_CQ_FORMAT_DATA;
  queue.wait_obj = FI_WAIT_NONE;
  make(completions_, "fi_cq_open", [&](auto made) { return fi_cq_open(domain_.get(), &queue, made, nullptr); });
  fi_av_attr table{};
  table.type = FI_AV_TABLE;
  make(addresses_, "fi_av_open", [&](auto made) { return fi_av_open(domain_.get(), &table, made, nullptr); });
  // The shm provider names an endpoint's memory by process id and index. fi_enable returns FI_EBUSY where a killed
  // process that had the same id left its file (libfabric 1.17 to 2.6); the next endpoint has the next index.
  constexpr int most_attempts = 16;
  int enabled = -FI_EBUSY;
  for (int attempt = 0; attempt < most_attempts && enabled == -FI_EBUSY; ++attempt) {
    endpoint_.reset();
    make(endpoint_, "fi_endpoint", [&](auto made) { return fi_endpoint(domain_.get(), info_.get(), made, nullptr); });
    if (gpu_memory) forbid_cuda();
    check(fi_ep_bind(endpoint_.get(), &completions_->fid, FI_SEND | FI_RECV), "fi_ep_bind to the completion queue");
    check(fi_ep_bind(endpoint_.get(), &addresses_->fid, 0), "fi_ep_bind to the address vector");
    enabled = fi_enable(endpoint_.get());
  }
  check(enabled, "fi_enable");
}

// Forbids the library to call CUDA; a provider that does not know the option can only copy through CUDA.
void Endpoint::forbid_cuda() {
  const bool no = false;
  const int result = fi_setopt(&endpoint_->fid, FI_OPT_ENDPOINT, option_cuda_api_permitted, &no, sizeof no);
  if (result == -FI_ENOPROTOOPT) return;
  check(result, result == -FI_EOPNOTSUPP ? "fi_setopt of FI_OPT_CUDA_API_PERMITTED=false, no peer-to-peer from " +
                                               device_of(*info_) + " to GPU memory"
                                         : "fi_setopt of FI_OPT_CUDA_API_PERMITTED=false");
}

std::vector<unsigned char> Endpoint::own_name() const {
  std::vector<unsigned char> bytes(512);
  std::size_t length = bytes.size();
  check(fi_getname(&endpoint_->fid, bytes.data(), &length), "fi_getname");
  bytes.resize(length);
  return bytes;
}

std::string Endpoint::address() const {
  std::string text;
  for (const unsigned char each : own_name()) text += fmt::format("{:02x}", each);
  return text;
}

// The address as "fi_sockaddr_in://10.0.0.1:4711" or "fi_addr_efa://[fe80::1]:0:1234"; "" if the provider has no text.
std::string Endpoint::text_of_address(const std::vector<unsigned char>& name) const {
  std::array<char, 256> written{};
  std::size_t length = written.size();
  return fi_av_straddr(addresses_.get(), name.data(), written.data(), &length) ? written.data() : "";
}

std::string Endpoint::host() const {
  std::string text = text_of_address(own_name());
  if (const auto scheme = text.find("://"); scheme != std::string::npos) text.erase(0, scheme + 3);
  return text.starts_with("[") ? text.substr(1, text.find(']') - 1) : text.substr(0, text.find(':'));
}

void Endpoint::connect(const std::vector<std::string>& addresses) {
  for (std::size_t rank = 0; rank < addresses.size(); ++rank) add_peer(addresses[rank], static_cast<int>(rank));
}

int Endpoint::add_peer(const std::string& address, int rank) {
  std::vector<unsigned char> bytes;
  for (std::size_t i = 0; i + 1 < address.size(); i += 2)
    bytes.push_back(static_cast<unsigned char>(std::stoi(address.substr(i, 2), nullptr, 16)));
  fi_addr_t found = FI_ADDR_UNSPEC;
  const int inserted = fi_av_insert(addresses_.get(), bytes.data(), 1, &found, 0, nullptr);
  if (inserted != 1)
    throw CaseError(fmt::format("fi_av_insert: {} ({}) takes no message to rank {} ({}){}", device_of(*info_),
                                text_of_address(own_name()), rank, text_of_address(bytes),
                                inserted < 0 ? fmt::format(": {}", fi_strerror(-inserted)) : "") +
                    (is_efa(*info_) ? "; EFA's device made no address handle: EINVAL in its log (FI_LOG_LEVEL=warn) "
                                      "is a peer in another availability zone, ENOMEM are too many peers"
                                    : ""));
  peers_.push_back(found);
  return static_cast<int>(peers_.size()) - 1;
}

fi_context2* Endpoint::begin(int& under_way) {
  if (begun_ == contexts_.size()) contexts_.push_back(std::make_unique<Context>());
  Context& context = *contexts_[begun_++];
  context.under_way = &under_way;
  ++under_way;
  return &context.library_context;
}

// Posts an operation; false while the library's queue is full or the peer is being connected (-FI_EAGAIN).
template <class Post>
bool Endpoint::try_post(const Post& post_now, std::string_view call, int& under_way) {
  const ssize_t result = post_now(begin(under_way));
  if (result != -FI_EAGAIN) {
    check(result, call);
    return true;
  }
  --begun_;
  --under_way;
  return false;
}

// Drives progress until the library may take another operation.
void Endpoint::make_room() {
  progress();
  throw_if_abort_requested(*page_);
  sched_yield();
}

bool Endpoint::try_send(const std::byte* memory, std::size_t bytes, const Registration& registration, int to,
                        std::uint64_t tag, int& under_way) {
  const fi_addr_t there = peers_.at(static_cast<std::size_t>(to));
  return try_post(
      [&](void* context) {
        return fi_tsend(endpoint_.get(), memory, bytes, registration.descriptor(), there, tag, context);
      },
      "fi_tsend", under_way);
}

bool Endpoint::try_receive(std::byte* memory, std::size_t bytes, const Registration& registration, std::uint64_t tag,
                           int& under_way) {
  return try_post(
      [&](void* context) {
        return fi_trecv(endpoint_.get(), memory, bytes, registration.descriptor(), FI_ADDR_UNSPEC, tag, 0, context);
      },
      "fi_trecv", under_way);
}

void Endpoint::send(const std::byte* memory, std::size_t bytes, const Registration& registration, int to,
                    std::uint64_t tag, int& under_way) {
  while (!try_send(memory, bytes, registration, to, tag, under_way)) make_room();
}

void Endpoint::receive(std::byte* memory, std::size_t bytes, const Registration& registration, std::uint64_t tag,
                       int& under_way) {
  while (!try_receive(memory, bytes, registration, tag, under_way)) make_room();
}

// Over TCP a write is carried as a message, so it would test nothing else.
bool Endpoint::writes() const {
  const bool is_nic = pci_of(*info_) != std::tuple(0, 0, 0, 0);
  return is_nic && (info_->caps & FI_RMA) != 0 && info_->domain_attr->cq_data_size >= 4;
}

void Endpoint::write(const std::byte* memory, std::size_t bytes, const Registration& registration, int to,
                     const Target& target, int& under_way) {
  const fi_addr_t there = peers_.at(static_cast<std::size_t>(to));
  constexpr std::uint64_t data = 0;  // the receiver only counts completions
  const auto write_now = [&](void* context) {
    return fi_writedata(endpoint_.get(), memory, bytes, registration.descriptor(), data, there, target.address,
                        target.key, context);
  };
  while (!try_post(write_now, "fi_writedata", under_way)) make_room();
}

// True for errors that say that the peer did not answer. The sender reports them, which may be the healthy end: the
// fault may be at either one or between them.
static bool is_unanswered(int error) {
  constexpr int no_receive = 269;  // FI_ENORX, which older headers do not have
  constexpr std::array unanswered{FI_ECONNABORTED, FI_ENOTCONN, FI_EHOSTUNREACH, no_receive};
  return std::ranges::find(unanswered, error) != unanswered.end();
}

void Endpoint::progress() {
  std::array<fi_cq_data_entry, 16> entries{};
  const ssize_t count = fi_cq_read(completions_.get(), entries.data(), entries.size());
  if (count == -FI_EAGAIN) return;
  if (count == -FI_EAVAIL) {
    fi_cq_err_entry error{};
    check(fi_cq_readerr(completions_.get(), &error, 0), "fi_cq_readerr");
    const std::string what =
        fmt::format("a message through {} failed: {} ({})", device_of(*info_), fi_strerror(error.err),
                    fi_cq_strerror(completions_.get(), error.prov_errno, error.err_data, nullptr, 0));
    if (is_unanswered(error.err)) throw StalledError(what);
    throw CaseError(what);
  }
  check(count, "fi_cq_read");
  for (std::size_t i = 0; std::cmp_less(i, count); ++i) {
    if ((entries[i].flags & FI_REMOTE_CQ_DATA) != 0) {
      --awaited_;
      continue;
    }
    --*static_cast<const Context*>(entries[i].op_context)->under_way;
    ++done_;
  }
}

void throw_if_abort_requested(const protocol::SharedPage& page) {
  if (page.give_up.load()) throw AbortRequested{};
}

Nics::Nics(std::vector<Info> infos, protocol::SharedPage& page, bool gpu_memory) : page_(page) {
  for (Info& info : infos) {
    auto& endpoint = endpoints_.emplace_back();
    if (info) endpoint.emplace(std::move(info), page, gpu_memory);
  }
  while (!endpoints_.at(first_)) ++first_;
}

std::vector<std::string> Nics::names() const {
  std::vector<std::string> names;
  for (const auto& each : endpoints_) names.push_back(each ? device_of(each->info()) : "");
  return names;
}

std::size_t Nics::largest_message() const {
  std::size_t least = first().info().ep_attr->max_msg_size;
  for (const Endpoint& each : endpoints()) least = std::min(least, each.info().ep_attr->max_msg_size);
  return least;
}

std::string Nics::addresses() const {
  std::vector<std::string> all;
  for (const auto& each : endpoints_) all.push_back(each ? each->address() : "");
  return join(all, ",");
}

namespace {

const std::string& first_of(const std::vector<std::string>& addresses) {
  return *std::ranges::find_if_not(addresses, &std::string::empty);
}

}  // namespace

void Nics::connect(const std::vector<std::string>& addresses) {
  for (const std::string& text : addresses) {
    of_ranks_.push_back(split(text));
    most_nics_ = std::max(most_nics_, of_ranks_.back().size());
  }
  for (std::size_t nic = 0; nic < endpoints_.size(); ++nic) {
    if (!endpoints_[nic]) continue;
    const auto has_such = [&](const std::vector<std::string>& of_rank) {
      return nic < of_rank.size() && !of_rank[nic].empty();
    };
    if (std::ranges::all_of(of_ranks_, has_such)) common_.push_back(nic);
    std::vector<std::string> others;
    for (const std::vector<std::string>& of_rank : of_ranks_)
      others.push_back(has_such(of_rank) ? of_rank[nic] : first_of(of_rank));
    endpoints_[nic]->connect(others);
  }
}

int Nics::peer_at(int nic, int rank, int of_peer) {
  if (nic == of_peer) return rank;
  const auto [known, fresh] = peers_.try_emplace(std::array{nic, rank, of_peer});
  if (fresh)
    known->second =
        at(nic).add_peer(of_ranks_.at(static_cast<std::size_t>(rank)).at(static_cast<std::size_t>(of_peer)), rank);
  return known->second;
}

Nics::Registrations Nics::register_memory(std::byte* memory, std::size_t bytes, std::optional<int> gpu,
                                          bool is_target) {
  Registrations all;
  for (auto& each : endpoints_)
    all.push_back(each ? each->register_memory(memory, bytes, gpu, is_target) : Registration());
  return all;
}

// The first NIC that this rank and the peer have, else the first one of each.
std::size_t Nics::first_common_nic(int peer) const {
  const std::vector<std::string>& peers = of_ranks_.at(static_cast<std::size_t>(peer));
  for (std::size_t nic = 0; nic < std::min(peers.size(), endpoints_.size()); ++nic)
    if (endpoints_[nic] && !peers[nic].empty()) return nic;
  return first_;
}

std::size_t Nics::parts_of(std::size_t bytes, std::optional<int> nic) const {
  // EFA copies shorter messages in software; from 1 MiB on its device transfers the data by RDMA.
  const std::size_t least_part = is_efa(first().info()) ? 1u << 20 : 64u << 10;
  return nic || common_.empty() || bytes / common_.size() < least_part ? 1 : common_.size();
}

// Calls post(number of the NIC, offset, bytes) for each part.
template <class Post>
void Nics::divide(std::size_t bytes, int peer, std::optional<int> nic, const Post& post) {
  if (nic) return post(static_cast<std::size_t>(*nic), 0, bytes);
  if (common_.empty()) return post(first_common_nic(peer), 0, bytes);
  const std::size_t parts = parts_of(bytes, nic);
  for (std::size_t i = 0; i < parts; ++i) {
    const std::size_t from = bytes * i / parts;
    post(common_[i], from, bytes * (i + 1) / parts - from);
  }
}

void Nics::send(const std::byte* memory, std::size_t bytes, const Registrations& registrations, int to,
                std::uint64_t tag, std::optional<int> nic, int& under_way) {
  divide(bytes, to, nic, [&](std::size_t i, std::size_t at, std::size_t part) {
    endpoints_.at(i)->send(memory + at, part, registrations.at(i), to, tag, under_way);
  });
}

void Nics::receive(std::byte* memory, std::size_t bytes, const Registrations& registrations, int from,
                   std::uint64_t tag, std::optional<int> nic, int& under_way) {
  divide(bytes, from, nic, [&](std::size_t i, std::size_t at, std::size_t part) {
    endpoints_.at(i)->receive(memory + at, part, registrations.at(i), tag, under_way);
  });
}

// Drives all NICs, since the peer's operation on another NIC may have to complete before the one waited for. Yields now
// and then, so that waiting ranks do not starve others if there are more ranks than cores.
void Nics::progress() {
  constexpr std::uint64_t between_looks = 64;
  for (Endpoint& each : endpoints()) each.progress();
  if (++looks_ % between_looks != 0) return;
  throw_if_abort_requested(page_);
  sched_yield();
}

void Nics::finish() {
  while (!std::ranges::all_of(endpoints(), &Endpoint::is_done)) progress();
  for (Endpoint& each : endpoints()) each.forget_completed();
}

std::vector<std::string> Nics::probe(int peer, std::uint64_t tag_out, std::uint64_t tag_in, Seconds limit) {
  const auto memory = [](std::uint64_t& message) { return reinterpret_cast<std::byte*>(&message); };
  constexpr std::size_t bytes = sizeof(std::uint64_t);
  const std::vector<std::string>& peers = of_ranks_.at(static_cast<std::size_t>(peer));
  for (std::size_t i = 0; i < most_nics_; ++i) {
    Probe& probe = *probes_.emplace_back(std::make_unique<Probe>());
    if (i >= endpoints_.size() || !endpoints_[i])
      probe.failure = nic_absent;
    else if (i >= peers.size() || peers[i].empty())
      probe.failure = nic_unmatched;
    else
      probe.out_registration = endpoints_[i]->register_memory(memory(probe.out), bytes),
      probe.in_registration = endpoints_[i]->register_memory(memory(probe.in), bytes);
  }
  const auto advance = [&](Endpoint& nic, Probe& probe) {
    try {
      if (!probe.receives)
        probe.receives = nic.try_receive(memory(probe.in), bytes, probe.in_registration, tag_in, probe.under_way);
      if (!probe.sends)
        probe.sends = nic.try_send(memory(probe.out), bytes, probe.out_registration, peer, tag_out, probe.under_way);
      nic.progress();
    } catch (const CaseError& problem) {
      probe.failure = problem.what();
    }
  };
  // A longer time between two polls was time in which this process did not run.
  constexpr Seconds longest_poll{0.01};
  Seconds waited{0};
  auto polled = Clock::now();
  const auto open = [](const auto& probe) { return !probe->passed() && probe->failure.empty(); };
  while (waited.count < limit.count && std::ranges::any_of(probes_, open)) {
    for (std::size_t i = 0; i < probes_.size(); ++i)
      if (open(probes_[i])) advance(*endpoints_[i], *probes_[i]);
    throw_if_abort_requested(page_);
    sched_yield();
    waited.count += std::min(since(std::exchange(polled, Clock::now())).count, longest_poll.count);
  }
  std::vector<std::string> failures;
  for (const auto& probe : probes_) failures.push_back(open(probe) ? std::string(nothing_heard) : probe->failure);
  return failures;
}

void Nics::count_step() {
  page_.completed.fetch_add(1);
  page_.last_completion_ns.store(clock_ns());
}

std::string Nics::waits_for() const {
  std::vector<std::string> waiting;
  for (const Endpoint& each : endpoints())
    if (each.under_way() > 0) waiting.push_back(fmt::format("{} through {}", each.under_way(), device_of(each.info())));
  return waiting.empty() ? "" : "messages under way: " + join(waiting);
}

std::optional<Moved> Nics::moved() const {
  Moved all;
  for (const Endpoint& each : endpoints()) {
    const auto counted = [&](const char* name) -> std::optional<std::uint64_t> {
      std::ifstream file(fmt::format("/sys/class/infiniband/{}/ports/1/hw_counters/{}", device_of(each.info()), name));
      std::uint64_t count = 0;
      return file >> count ? std::optional(count) : std::nullopt;
    };
    const auto read = counted("rdma_read_bytes"), sent = counted("send_bytes");
    if (!read || !sent) return std::nullopt;
    all.read += *read + counted("rdma_read_resp_bytes").value_or(0);
    const auto written = counted("rdma_write_bytes");
    all.counts_writes = all.counts_writes && written;
    all.written += written.value_or(0) + counted("rdma_write_recv_bytes").value_or(0);
    all.packets += *sent + counted("recv_bytes").value_or(0);
  }
  return all;
}

}  // namespace p5::ofi
