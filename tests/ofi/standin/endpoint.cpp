#include "tests/ofi/standin/endpoint.hpp"

#include <fcntl.h>
#include <rdma/fabric.h>
#include <rdma/fi_errno.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "tests/ofi/standin/regions.hpp"
#include "tests/ofi/standin/settings.hpp"

namespace standin {

namespace {

constexpr std::size_t most_sending = 4096, most_before_answer = 16, device_reads_from = 1u << 20;
constexpr double share_in_packets = 0.55;  // rate factor for copies by processors (c5n: 6.9 of 12.5 GB/s)
constexpr double loopback_rate = 1.5e9;    // bytes/s: copies within host memory, as NICs have no loopback

std::uint32_t number_of(const std::string& host) {
  std::uint32_t hash = 2166136261u;  // FNV-1a
  for (const char c : host) hash = (hash ^ static_cast<std::uint8_t>(c)) * 16777619u;
  return hash;
}

std::string name_of_mailbox(const Address& address) {
  return "mailbox-" + hexadecimal(address.gid.data(), address.gid.size()) + "-" + std::to_string(address.qpn);
}
std::string name_of_nic(const Address& address) { return "nic-" + hexadecimal(address.gid.data(), address.gid.size()); }
std::string name_of_host(const Address& address) { return "host-" + hexadecimal(address.gid.data() + 8, 4); }

bool is_free(const Busy& busy, std::int64_t now) { return busy.until.load() <= now; }
// The time from which on it is free again.
std::int64_t occupy(Busy& busy, std::int64_t from, std::int64_t duration) {
  std::int64_t until = busy.until.load();
  while (!busy.until.compare_exchange_weak(until, std::max(until, from) + duration)) {
  }
  return std::max(until, from) + duration;
}

}  // namespace

Endpoint::Endpoint(const Device& device, int number, bool device_rdma)
    : device_(device), number_(number), device_rdma_(device_rdma) {
  const Settings& all = settings();
  silent_ = all.fault_of(device.name, "silent") != nullptr;
  lies_ = all.fault_of(device.name, "lies") != nullptr;
  const Fault* const slow = all.fault_of(device.name, "slow");
  rate_ = all.machine.nic_rate * all.scale * (slow ? slow->share : 1) / 1e9;
  memory_rate_ = all.machine.host_memory_rate * all.scale / 1e9;
  address_.gid[0] = 0xfe;
  address_.gid[1] = 0x80;
  address_.gid[7] = all.zone;
  const std::uint32_t host = number_of(all.host);
  std::memcpy(address_.gid.data() + 8, &host, sizeof host);
  address_.gid[12] = static_cast<std::uint8_t>(number + 1);
  nic_ = shared<NicState>(all.fabric, name_of_nic(address_));
  host_ = shared<HostState>(all.fabric, name_of_host(address_));
  address_.qpn = static_cast<std::uint16_t>(nic_->queue_pairs.fetch_add(1) + 1);
  address_.qkey = static_cast<std::uint32_t>(::getpid());
  mailbox_ = shared<Mailbox>(all.fabric, name_of_mailbox(address_));
  mailbox_->made.store(1);
}

Endpoint::Peer& Endpoint::peer_of(const Address& address) {
  std::unique_ptr<Peer>& peer = peers_[name_of_mailbox(address)];
  if (!peer) {
    const std::string& fabric = settings().fabric;
    peer = std::make_unique<Peer>(
        Peer{shared<Mailbox>(fabric, name_of_mailbox(address)), shared<NicState>(fabric, name_of_nic(address)),
             shared<HostState>(fabric, name_of_host(address)), name_of_host(address) == name_of_host(address_)});
  }
  return *peer;
}

bool Endpoint::reads(std::size_t bytes) const { return device_rdma_ && bytes >= device_reads_from; }

long Endpoint::send(const Address& to, const void* data, std::size_t bytes, std::uint64_t tag, int gpu, void* context) {
  Peer& peer = peer_of(to);
  const bool answered = peer.mailbox->listening.load() != 0;
  if (sending_.size() >= (answered ? most_sending : most_before_answer)) return -FI_EAGAIN;
  begin(to, peer, data, bytes, gpu, context).tag = tag;
  return 0;
}

long Endpoint::write(const Address& to, const void* data, std::size_t bytes, std::uint64_t address, std::uint64_t key,
                     std::uint64_t said, int gpu, void* context) {
  Peer& peer = peer_of(to);
  const bool answered = peer.mailbox->listening.load() != 0;
  if (sending_.size() >= (answered ? most_sending : most_before_answer)) return -FI_EAGAIN;
  Sending& sending = begin(to, peer, data, bytes, gpu, context);
  sending.writes = true;
  sending.address = address;
  sending.key = key;
  sending.tag = said;
  sending.state = Sending::granted;
  return 0;
}

Endpoint::Sending& Endpoint::begin(const Address& to, Peer& peer, const void* data, std::size_t bytes, int gpu,
                                   void* context) {
  Sending& sending = sending_.emplace_back();
  sending.to = to;
  sending.peer = &peer;
  sending.data = static_cast<const std::byte*>(data);
  sending.bytes = bytes;
  sending.gpu = gpu;
  sending.number = ++numbers_;
  sending.context = context;
  sending.since = sending.ready = now_ns();
  if (lies_ && bytes > 0) {
    sending.lie.assign(sending.data, sending.data + bytes);
    sending.lie.front() ^= std::byte{1};
    sending.data = sending.lie.data();
  }
  const auto under_way = static_cast<std::uint64_t>(
      std::ranges::count_if(sending_, [](const Sending& each) { return each.bytes > cell_bytes; }));
  if (under_way > nic_->most_under_way.load()) nic_->most_under_way.store(under_way);
  return sending;
}

long Endpoint::receive(void* data, std::size_t bytes, std::uint64_t tag, std::uint64_t ignore, void* context) {
  const Receiving receiving{
      .data = static_cast<std::byte*>(data), .bytes = bytes, .tag = tag, .ignore = ignore, .context = context};
  const auto early = std::ranges::find_if(
      unexpected_, [&](const Unexpected& each) { return (each.header.tag & ~ignore) == (tag & ~ignore); });
  if (early == unexpected_.end()) {
    posted_.push_back(receiving);
    return 0;
  }
  const Unexpected message = std::move(*early);
  unexpected_.erase(early);
  match(message.header, message.data.data(), receiving);
  return 0;
}

void Endpoint::match(const Header& header, const std::byte* data, const Receiving& receiving) {
  if (header.kind == Kind::whole) {
    std::memcpy(receiving.data, data, std::min<std::size_t>(header.bytes, receiving.bytes));
    completions_->done.push_back({receiving.context});
    return;
  }
  const std::uint64_t number = ++numbers_;
  arriving_[number] = receiving;
  arriving_[number].total = header.total;
  say(header.from, {.kind = Kind::grant, .sender = header.sender, .receiver = number, .from = address_});
}

void Endpoint::say(const Address& to, const Header& header) {
  if (silent_) return;
  if (!words_.empty() || !peer_of(to).mailbox->put(header, nullptr)) words_.emplace_back(to, header);
}

void Endpoint::take(const Header& header, const std::byte* data) {
  const auto its = [&] {
    return std::ranges::find_if(sending_, [&](const Sending& each) { return each.number == header.sender; });
  };
  switch (header.kind) {
    case Kind::whole:
    case Kind::request: {
      if (header.kind == Kind::whole) count(recv_bytes, header.bytes);
      const auto wanted = std::ranges::find_if(
          posted_, [&](const Receiving& each) { return (each.tag & ~each.ignore) == (header.tag & ~each.ignore); });
      if (wanted == posted_.end()) {
        unexpected_.push_back({header, {data, data + header.bytes}});
        return;
      }
      const Receiving receiving = *wanted;
      posted_.erase(wanted);
      return match(header, data, receiving);
    }
    case Kind::grant: {
      const auto sending = its();
      if (sending == sending_.end()) return;
      sending->receiver = header.receiver;
      sending->state = Sending::granted;
      sending->ready = now_ns();
      return;
    }
    case Kind::data: {
      Receiving& receiving = arriving_.at(header.receiver);
      const std::size_t room = receiving.bytes - std::min<std::size_t>(receiving.bytes, header.offset);
      std::memcpy(receiving.data + header.offset, data, std::min<std::size_t>(header.bytes, room));
      receiving.arrived += header.bytes;
      count(reads(receiving.total) ? rdma_read_bytes : recv_bytes, header.bytes);
      if (receiving.arrived < receiving.total) return;
      completions_->done.push_back({receiving.context});
      arriving_.erase(header.receiver);
      return say(header.from, {.kind = Kind::done, .sender = header.sender, .from = address_});
    }
    case Kind::done:
    case Kind::refused: {
      const auto sending = its();
      if (sending == sending_.end()) return;
      if (header.kind == Kind::done)
        completions_->done.push_back({sending->context});
      else
        fail(*sending, FI_EINVAL, 7, "Invalid remote registration");
      sending_.erase(sending);
      return;
    }
    case Kind::write:
      take_write(header, data);
  }
}

// Cells of one write arrive in order; each contains the write's length.
void Endpoint::take_write(const Header& header, const std::byte* data) {
  const Region* const region = find_region(header.key);
  std::byte* const place = region ? region->at(header.receiver + header.offset, header.bytes) : nullptr;
  if (!place) return say(header.from, {.kind = Kind::refused, .sender = header.sender, .from = address_});
  std::memcpy(place, data, header.bytes);
  count(settings().machine.writes() && device_rdma_ ? rdma_write_recv_bytes
        : device_rdma_                              ? rdma_read_bytes
                                                    : recv_bytes,
        header.bytes);
  if (header.offset + header.bytes < header.total) return;
  completions_->done.push_back({nullptr, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA, header.tag});
  say(header.from, {.kind = Kind::done, .sender = header.sender, .from = address_});
}

void Endpoint::take_in() {
  constexpr int most_at_once = 50;
  for (int i = 0; i < most_at_once; ++i) {
    const Cell* const cell = mailbox_->front();
    if (!cell) return;
    if (!silent_) take(cell->header, cell->data.data());
    mailbox_->pop();
  }
}

bool Endpoint::by_device(const Sending& sending) const {
  return sending.writes ? device_rdma_ : sending.bytes > cell_bytes && reads(sending.bytes);
}

// Share of the NIC's rate that remains on the path from a GPU's memory.
double Endpoint::share_of_path(int gpu) const {
  if (gpu < 0) return 1;
  const Settings& all = settings();
  const int nics = static_cast<int>(all.machine.devices.size());
  const Fault* const slow = all.fault_of(device_.name + "@" + std::to_string(gpu), "path");
  return (number_ * all.machine.gpus / nics == gpu ? 1 : all.far) * (slow ? slow->share : 1);
}

// True once the NICs and host memory of both sides have had the time that these bytes take: they begin when all are
// idle, and keep all busy until then. A NIC needs no processor: it works while the process does not run, from when it
// was asked to, less the time for which the other parts kept it waiting.
bool Endpoint::passes(Sending& sending, std::size_t bytes) {
  if (!(rate_ > 0)) return true;
  const Peer& peer = *sending.peer;
  const std::int64_t now = now_ns();
  if (sending.due > 0) return sending.due <= now;
  const bool here = memory_rate_ > 0 && sending.gpu < 0;
  const bool there = memory_rate_ > 0 && (sending.writes ? (sending.key & key_of_gpu) == 0 : sending.gpu < 0);
  if (!is_free(nic_->sends, now)) return false;
  const bool waits = !is_free(peer.nic->receives, now) || (here && !is_free(host_->memory, now)) ||
                     (there && !is_free(peer.host->memory, now));
  if (waits && sending.waited_at > 0)
    sending.ready = std::max(sending.ready, nic_->sends.until.load()) + now - sending.waited_at;
  sending.waited_at = waits ? now : 0;
  if (waits) return false;
  double rate = rate_ * (by_device(sending) ? 1 : share_in_packets) * share_of_path(sending.gpu);
  if (peer.same_host) rate = std::min(rate, loopback_rate * settings().scale / 1e9);
  const auto take = [&](Busy& busy, double its) {
    const auto duration = static_cast<std::int64_t>(static_cast<double>(bytes) / its);
    sending.due = std::max(sending.due, occupy(busy, sending.ready, duration));
  };
  take(nic_->sends, rate);
  take(peer.nic->receives, rate);
  if (here) take(host_->memory, memory_rate_);
  if (there && !(here && peer.same_host)) take(peer.host->memory, memory_rate_);
  return sending.due <= now;
}

bool Endpoint::push(Sending& sending) {
  const Settings& all = settings();
  const double waited = static_cast<double>(now_ns() - sending.since) / 1e9;
  if (all.silence > 0 && waited > all.silence) {
    fail(sending, FI_EHOSTUNREACH, 15, "Unreachable remote - never received a response");
    return true;
  }
  // Receiver not ready: retried without a limit.
  if (silent_ || sending.peer->mailbox->listening.load() == 0) return false;
  Header header{.bytes = 0,
                .tag = sending.tag,
                .total = sending.bytes,
                .offset = sending.moved,
                .sender = sending.number,
                .receiver = sending.receiver,
                .from = address_};
  if (sending.state == Sending::queued && sending.bytes <= cell_bytes) {
    header.kind = Kind::whole;
    header.bytes = static_cast<std::uint32_t>(sending.bytes);
    if (!sending.peer->mailbox->has_room()) return false;
    if (sending.bytes > 0 && !passes(sending, sending.bytes)) return false;
    if (!sending.peer->mailbox->put(header, sending.data)) return false;
    count(send_bytes, sending.bytes);
    completions_->done.push_back({sending.context});
    return true;
  }
  if (sending.state == Sending::queued) {
    header.kind = Kind::request;
    if (sending.peer->mailbox->put(header, nullptr)) sending.state = Sending::requested;
    return false;
  }
  if (sending.state != Sending::granted) return false;
  const std::size_t part = std::min(cell_bytes, sending.bytes - sending.moved);
  if (!sending.peer->mailbox->has_room() || !passes(sending, part)) return false;
  header.kind = sending.writes ? Kind::write : Kind::data;
  if (sending.writes) {
    header.key = sending.key;
    header.receiver = sending.address;
  }
  header.bytes = static_cast<std::uint32_t>(part);
  if (!sending.peer->mailbox->put(header, sending.data + sending.moved)) return false;
  if (sending.gpu >= 0) nic_->from_gpu.at(static_cast<std::size_t>(sending.gpu)).fetch_add(part);
  count(!by_device(sending)                             ? send_bytes
        : sending.writes && settings().machine.writes() ? rdma_write_bytes
                                                        : rdma_read_resp_bytes,
        part);
  sending.due = 0;
  sending.moved += part;
  sending.since = now_ns();
  if (sending.moved == sending.bytes) sending.state = Sending::waits;
  return false;
}

void Endpoint::push_out() {
  while (!words_.empty() && peer_of(words_.front().first).mailbox->put(words_.front().second, nullptr))
    words_.pop_front();
  for (auto each = sending_.begin(); each != sending_.end();)
    each = push(*each) ? sending_.erase(each) : std::next(each);
}

void Endpoint::progress() {
  mailbox_->listening.store(1);
  take_in();
  push_out();
}

// Also updates the kernel's counter files if a test has created them.
void Endpoint::count(Counter counter, std::uint64_t bytes) {
  static constexpr std::array<const char*, counters> names{"tx_bytes",         "rx_bytes",
                                                           "send_bytes",       "recv_bytes",
                                                           "rdma_read_bytes",  "rdma_read_resp_bytes",
                                                           "rdma_write_bytes", "rdma_write_recv_bytes"};
  const bool out = counter == send_bytes || counter == rdma_read_resp_bytes || counter == rdma_write_bytes;
  for (const Counter each : {counter, out ? tx_bytes : rx_bytes}) {
    const std::uint64_t sum = nic_->counted[each].fetch_add(bytes) + bytes;
    const std::string path = "/sys/class/infiniband/" + device_.name + "/ports/1/hw_counters/" + names[each];
    const int file = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
    if (file < 0) continue;
    std::array<char, 24> text{};
    const int length = std::snprintf(text.data(), text.size(), "%020llu\n", static_cast<unsigned long long>(sum));
    if (::pwrite(file, text.data(), static_cast<std::size_t>(length), 0) < 0) std::perror(path.c_str());
    ::close(file);
  }
}

void Endpoint::fail(const Sending& sending, int error, int code, const std::string& why) {
  completions_->last_error = why + " My EFA addr: fe80::" + hexadecimal(address_.gid.data() + 8, 8) +
                             " Peer EFA addr: fe80::" + hexadecimal(sending.to.gid.data() + 8, 8);
  fi_cq_err_entry entry{};
  entry.op_context = sending.context;
  entry.err = error;
  entry.prov_errno = code;
  completions_->errors.push_back(entry);
}

}  // namespace standin
