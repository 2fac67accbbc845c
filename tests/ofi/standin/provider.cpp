// A stand-in for libfabric's EFA provider, for tests only: SIMULATED devices that move data through memory shared by
// all hosts, at scaled rates. It follows the contract of the real provider as far as p5bench's worker relies on it: the
// devices that it lists, their order and names, the use of RDMA by the device, the calls that it rejects and the errors
// that end the process. Its settings are in settings.hpp. libfabric loads it from FI_PROVIDER_PATH.
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <rdma/providers/fi_prov.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "tests/ofi/standin/endpoint.hpp"
#include "tests/ofi/standin/regions.hpp"
#include "tests/ofi/standin/settings.hpp"

namespace {

using standin::Address;
using standin::Device;
using standin::settings;

constexpr std::uint64_t caps_of_rdm = FI_MSG | FI_RMA | FI_TAGGED | FI_ATOMIC | FI_SEND | FI_RECV | FI_READ | FI_WRITE |
                                      FI_REMOTE_READ | FI_REMOTE_WRITE | FI_MULTI_RECV | FI_SOURCE | FI_DIRECTED_RECV |
                                      FI_LOCAL_COMM | FI_REMOTE_COMM;
constexpr std::uint64_t caps_of_direct = FI_MSG | FI_RMA | FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ |
                                         FI_REMOTE_WRITE | FI_LOCAL_COMM | FI_REMOTE_COMM;
constexpr std::size_t mtu = 8760, most_regions = 262144;

// ---- errors that end the process, as in the real provider

bool is_true(const char* value) {
  const std::string text = value;
  return text == "1" || text == "true" || text == "yes" || text == "on";
}

void look_at_environment() {
  for (const char* const name : {"FI_EFA_MTU_SIZE", "FI_EFA_TX_IOV_LIMIT", "FI_EFA_RX_IOV_LIMIT"}) {
    if (!std::getenv(name)) continue;
    std::fprintf(stderr,
                 "%s env variable detected! The use of this variable has been deprecated and as such execution cannot "
                 "proceed.\n",
                 name);
    std::abort();
  }
  const char* const credits = std::getenv("FI_EFA_TX_MIN_CREDITS");
  if (credits && std::atoi(credits) <= 0) {
    std::fprintf(stderr,
                 "FI_EFA_TX_MIN_CREDITS is set to %s, and has to be above zero. The application will now abort.\n",
                 credits);
    std::abort();
  }
}

bool device_rdma(std::uint32_t asked) {
  const standin::Machine& machine = settings().machine;
  const bool old = machine.part_id == 0xefa0 || machine.part_id == 0xefa1;
  const bool usual = FI_VERSION_GE(asked, settings().api) ? machine.reads : !old;
  const char* const set = std::getenv("FI_EFA_USE_DEVICE_RDMA");
  if (!set) return usual;
  if (is_true(set) && !machine.reads) {
    std::fprintf(
        stderr,
        "FI_EFA_USE_DEVICE_RDMA=1 was set, but the device has no rdma-read capability. Application will abort().\n");
    std::abort();
  }
  return is_true(set);
}

// ---- memory of GPUs

// The real provider looks for GPUs when it is loaded, unless FI_HMEM forbids it.
bool takes_gpu_memory() {
  const char* const kinds = std::getenv("FI_HMEM");
  return (!kinds || std::string(kinds) != "system") && settings().gpu != "none" && standin::has_gpu();
}

// ---- fi_info

int control_nic(fid* nic, int command, void* argument);
int close_nic(fid* nic);
fi_ops nic_calls{.size = sizeof(fi_ops),
                 .close = close_nic,
                 .bind = nullptr,
                 .control = control_nic,
                 .ops_open = nullptr,
                 .tostr = nullptr,
                 .ops_set = nullptr};

fid_nic* make_nic(const std::string& name, int bus, int slot) {
  auto* const nic = static_cast<fid_nic*>(std::calloc(1, sizeof(fid_nic)));
  nic->fid.fclass = FI_CLASS_NIC;
  nic->fid.ops = &nic_calls;
  nic->device_attr = static_cast<fi_device_attr*>(std::calloc(1, sizeof(fi_device_attr)));
  nic->device_attr->name = strdup(name.c_str());
  nic->bus_attr = static_cast<fi_bus_attr*>(std::calloc(1, sizeof(fi_bus_attr)));
  nic->bus_attr->bus_type = FI_BUS_PCI;
  nic->bus_attr->attr.pci.bus_id = static_cast<std::uint8_t>(bus);
  nic->bus_attr->attr.pci.device_id = static_cast<std::uint8_t>(slot);
  nic->link_attr = static_cast<fi_link_attr*>(std::calloc(1, sizeof(fi_link_attr)));
  nic->link_attr->mtu = mtu;
  nic->link_attr->speed = static_cast<std::size_t>(settings().machine.nic_rate * 8);
  nic->link_attr->state = FI_LINK_UP;
  nic->link_attr->network_type = strdup("Ethernet");
  return nic;
}

int control_nic(fid* fid, int command, void* argument) {
  if (command != FI_DUP) return -FI_ENOSYS;
  const auto* const nic = reinterpret_cast<fid_nic*>(fid);
  *static_cast<fid_nic**>(argument) =
      make_nic(nic->device_attr->name, nic->bus_attr->attr.pci.bus_id, nic->bus_attr->attr.pci.device_id);
  return 0;
}

int close_nic(fid* fid) {
  auto* const nic = reinterpret_cast<fid_nic*>(fid);
  std::free(nic->device_attr->name);
  std::free(nic->device_attr);
  std::free(nic->bus_attr);
  std::free(nic->link_attr->network_type);
  std::free(nic->link_attr);
  std::free(nic);
  return 0;
}

enum class Path { direct, rdm, dgram };

bool refuses(const fi_info& hints, Path path, std::uint32_t version) {
  const bool gpu = (hints.caps & FI_HMEM) != 0;
  if (gpu && (path == Path::dgram || !takes_gpu_memory())) return true;
  if (gpu && FI_VERSION_LT(version, settings().api) && (settings().gpu == "copies" || !device_rdma(version)))
    return true;
  const std::uint64_t has = path == Path::direct ? caps_of_direct
                            : path == Path::rdm  ? caps_of_rdm
                                                 : FI_MSG | FI_SEND | FI_RECV;
  if ((hints.caps & ~(has | FI_HMEM)) != 0) return true;
  const int mr_mode = hints.domain_attr ? hints.domain_attr->mr_mode : 0;
  const fi_ep_type type = hints.ep_attr ? hints.ep_attr->type : FI_EP_UNSPEC;
  if (type != FI_EP_UNSPEC && type != (path == Path::dgram ? FI_EP_DGRAM : FI_EP_RDM)) return true;
  if (path != Path::rdm && (hints.mode & FI_CONTEXT2) == 0) return true;
  if (path == Path::direct && (mr_mode & FI_MR_LOCAL) == 0) return true;
  const int needed =
      FI_MR_ALLOCATED | (gpu ? FI_MR_HMEM : 0) | ((hints.caps & FI_RMA) != 0 ? FI_MR_VIRT_ADDR | FI_MR_PROV_KEY : 0);
  return (mr_mode & needed) != needed;
}

fi_info* describe(const Device& device, Path path, const fi_info* hints, std::uint32_t version) {
  fi_info* const info = fi_allocinfo();
  const bool rdm = path == Path::rdm;
  info->caps = rdm ? caps_of_rdm : path == Path::direct ? caps_of_direct : FI_MSG | FI_SEND | FI_RECV;
  if (hints && hints->caps != 0) info->caps &= hints->caps | FI_SEND | FI_RECV | FI_LOCAL_COMM | FI_REMOTE_COMM;
  if (hints) info->caps |= hints->caps & FI_HMEM;
  info->mode = rdm ? 0 : path == Path::dgram ? FI_MSG_PREFIX | FI_CONTEXT2 : FI_CONTEXT2;
  info->addr_format = FI_ADDR_EFA;
  info->ep_attr->type = path == Path::dgram ? FI_EP_DGRAM : FI_EP_RDM;
  info->ep_attr->protocol = FI_PROTO_EFA;
  info->ep_attr->protocol_version = 4;
  info->ep_attr->max_msg_size = rdm ? std::numeric_limits<std::size_t>::max() : mtu;
  info->ep_attr->mem_tag_format = rdm ? 0xaaaaaaaaaaaaaaaa : 0;
  info->ep_attr->tx_ctx_cnt = info->ep_attr->rx_ctx_cnt = 1;
  info->tx_attr->size = 4096;
  info->tx_attr->iov_limit = 4;
  info->tx_attr->inject_size = mtu;
  info->tx_attr->caps = info->caps & ~(FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE);
  info->rx_attr->size = 8192;
  info->rx_attr->iov_limit = 4;
  info->rx_attr->caps = info->caps & ~(FI_SEND | FI_READ | FI_WRITE);
  info->domain_attr->name = strdup((device.name + (path == Path::dgram ? "-dgrm" : "-rdm")).c_str());
  info->domain_attr->threading = FI_THREAD_SAFE;
  info->domain_attr->control_progress = info->domain_attr->data_progress =
      path == Path::direct ? FI_PROGRESS_AUTO : FI_PROGRESS_MANUAL;
  info->domain_attr->resource_mgmt = FI_RM_ENABLED;
  info->domain_attr->av_type = FI_AV_TABLE;
  const int asked = hints && hints->domain_attr ? hints->domain_attr->mr_mode : 0;
  info->domain_attr->mr_mode = FI_MR_ALLOCATED | (asked & FI_MR_LOCAL);
  if ((info->caps & FI_RMA) != 0) info->domain_attr->mr_mode |= FI_MR_VIRT_ADDR | FI_MR_PROV_KEY;
  if ((info->caps & FI_HMEM) != 0) info->domain_attr->mr_mode |= FI_MR_HMEM;
  info->domain_attr->mr_key_size = info->domain_attr->cq_data_size = 4;
  info->domain_attr->cq_cnt = 512;
  info->domain_attr->ep_cnt = 256;
  info->domain_attr->mr_cnt = most_regions;
  info->domain_attr->mr_iov_limit = 1;
  info->fabric_attr->name = strdup(path == Path::direct ? "efa-direct" : "efa");
  info->fabric_attr->prov_version = FI_VERSION(204, 0);
  info->fabric_attr->api_version = version;
  info->nic = make_nic(device.name, device.bus, device.slot);
  return info;
}

// The first fi_getinfo() call, in which the real provider initializes CUDA unless FI_HMEM forbids it.
void start_once() {
  static bool started = false;
  if (started) return;
  started = true;
  look_at_environment();
  const char* const memory = std::getenv("FI_HMEM");
  if (!memory || std::string(memory) != "system") ::usleep(static_cast<useconds_t>(settings().start * 1e6));
}

int get_info(std::uint32_t version, const char*, const char*, std::uint64_t, const fi_info* hints, fi_info** found) {
  start_once();
  fi_info** last = found;
  *found = nullptr;
  for (const Path path : {Path::direct, Path::rdm, Path::dgram}) {
    if (hints && refuses(*hints, path, version)) continue;
    for (const Device& device : settings().machine.devices) {
      if (settings().fault_of(device.name, "absent")) continue;
      fi_info* const info = describe(device, path, hints, version);
      const char* const wanted = hints && hints->domain_attr ? hints->domain_attr->name : nullptr;
      const char* const fabric = hints && hints->fabric_attr ? hints->fabric_attr->name : nullptr;
      if ((wanted && std::string(wanted) != info->domain_attr->name) ||
          (fabric && std::string(fabric) != info->fabric_attr->name)) {
        fi_freeinfo(info);
        continue;
      }
      *last = info;
      last = &info->next;
    }
  }
  return *found ? 0 : -FI_ENODATA;
}

// ---- objects

template <class Object>
int close_object(fid* fid) {
  delete reinterpret_cast<Object*>(fid);
  return 0;
}

template <class Object>
fi_ops* calls_of() {
  static fi_ops calls{.size = sizeof(fi_ops),
                      .close = close_object<Object>,
                      .bind = nullptr,
                      .control = nullptr,
                      .ops_open = nullptr,
                      .tostr = nullptr,
                      .ops_set = nullptr};
  return &calls;
}

struct Fabric {
  fid_fabric own{};
  std::uint32_t version = 0;
};

struct Queue;
struct Point {
  fid_ep own{};
  std::unique_ptr<standin::Endpoint> endpoint{};
  const std::vector<Address>* peers = nullptr;
  Queue* queue = nullptr;
  bool enabled = false;
  ~Point();
};

struct Queue {
  fid_cq own{};
  fi_cq_format format = FI_CQ_FORMAT_CONTEXT;
  standin::Completions completions{};
  std::vector<Point*> points{};
  Queue() { ++open; }
  ~Queue() { --open; }
  static inline std::atomic<int> open = 0;  // of this process
};

Point::~Point() {
  if (queue) std::erase(queue->points, this);
}

struct Vector {
  fid_av own{};
  std::vector<Address> all{};
};

struct Region {
  fid_mr own{};
  std::uint64_t key = 0;
  ~Region() { standin::remove_region(key); }
};

// Location of the memory of a call, from its descriptor.
struct Data {
  const std::byte* real = nullptr;
  int gpu = -1;
};

struct Domain {
  fid_domain own{};
  const Device* device = nullptr;
  int number = 0;
  bool reads = false;
};

std::size_t size_of(fi_cq_format format) {
  switch (format) {
    case FI_CQ_FORMAT_MSG:
      return sizeof(fi_cq_msg_entry);
    case FI_CQ_FORMAT_DATA:
      return sizeof(fi_cq_data_entry);
    case FI_CQ_FORMAT_TAGGED:
      return sizeof(fi_cq_tagged_entry);
    default:
      return sizeof(fi_cq_entry);
  }
}

// Sleeps once all queues of this process were read in vain: simulated NICs take far longer than real ones, and what
// waits for them would take the processors from those that move data.
void rest() {
  static std::atomic<int> in_vain = 0;
  if (!(settings().scale > 0) || ++in_vain < Queue::open) return;
  in_vain = 0;
  ::usleep(50);
}

ssize_t read_queue(fid_cq* fid, void* entries, std::size_t most) {
  Queue& queue = *reinterpret_cast<Queue*>(fid);
  for (Point* const point : queue.points)
    if (point->enabled) point->endpoint->progress();
  if (!queue.completions.errors.empty()) return -FI_EAVAIL;
  std::size_t count = 0;
  for (; count < most && !queue.completions.done.empty(); ++count) {
    char* const entry = static_cast<char*>(entries) + count * size_of(queue.format);
    std::memset(entry, 0, size_of(queue.format));
    const standin::Done& done = queue.completions.done.front();
    std::memcpy(entry, &done.context, sizeof done.context);
    if (queue.format != FI_CQ_FORMAT_CONTEXT)
      std::memcpy(entry + offsetof(fi_cq_data_entry, flags), &done.flags, sizeof done.flags);
    if (queue.format == FI_CQ_FORMAT_DATA || queue.format == FI_CQ_FORMAT_TAGGED)
      std::memcpy(entry + offsetof(fi_cq_data_entry, data), &done.data, sizeof done.data);
    queue.completions.done.pop_front();
  }
  if (count > 0) return static_cast<ssize_t>(count);
  rest();
  return -FI_EAGAIN;
}

ssize_t read_error(fid_cq* fid, fi_cq_err_entry* entry, std::uint64_t) {
  standin::Completions& all = reinterpret_cast<Queue*>(fid)->completions;
  if (all.errors.empty()) return -FI_EAGAIN;
  *entry = all.errors.front();
  entry->err_data = all.last_error.data();
  entry->err_data_size = all.last_error.size();
  all.errors.pop_front();
  return 1;
}

const char* text_of_error(fid_cq*, int, const void* data, char*, std::size_t) {
  return data ? static_cast<const char*>(data) : "";
}

int open_queue(fid_domain*, fi_cq_attr* attributes, fid_cq** made, void*) {
  if (attributes->wait_obj != FI_WAIT_NONE) return -FI_ENOSYS;
  static fi_ops_cq calls{};
  calls = {.size = sizeof(calls),
           .read = read_queue,
           .readfrom = nullptr,
           .readerr = read_error,
           .sread = nullptr,
           .sreadfrom = nullptr,
           .signal = nullptr,
           .strerror = text_of_error};
  auto* const queue = new Queue;
  queue->own.fid = {.fclass = FI_CLASS_CQ, .context = nullptr, .ops = calls_of<Queue>()};
  queue->own.ops = &calls;
  if (attributes->format != FI_CQ_FORMAT_UNSPEC) queue->format = attributes->format;
  *made = &queue->own;
  return 0;
}

// Without FI_SYNC_ERR the reason for a rejected address is not reported: the count of inserted ones is just smaller.
int insert(fid_av* fid, const void* addresses, std::size_t count, fi_addr_t* places, std::uint64_t flags, void*) {
  if ((flags & ~FI_MORE) != 0) return -FI_ENOSYS;
  Vector& vector = *reinterpret_cast<Vector*>(fid);
  for (std::size_t i = 0; i < count; ++i) {
    const auto inserted = static_cast<int>(i);
    Address address;
    std::memcpy(&address, static_cast<const char*>(addresses) + i * sizeof(Address), sizeof(Address));
    const bool none = std::ranges::all_of(address.gid, [](std::uint8_t byte) { return byte == 0; });
    if (none || address.gid[7] != settings().zone) {
      for (; i < count; ++i) places[i] = FI_ADDR_NOTAVAIL;
      return inserted;
    }
    places[i] = vector.all.size();
    vector.all.push_back(address);
  }
  return static_cast<int>(count);
}

const char* text_of_address(fid_av*, const void* bytes, char* text, std::size_t* length) {
  Address address;
  std::memcpy(&address, bytes, sizeof address);
  const int needed = std::snprintf(text, *length, "fi_addr_efa://[fe80::%s]:%u:%u",
                                   standin::hexadecimal(address.gid.data() + 6, 10).c_str(), address.qpn, address.qkey);
  *length = static_cast<std::size_t>(needed) + 1;
  return text;
}

int open_vector(fid_domain*, fi_av_attr* attributes, fid_av** made, void*) {
  if (attributes->type == FI_AV_MAP) return -FI_ENOSYS;
  static fi_ops_av calls{};
  calls.size = sizeof(calls);
  calls.insert = insert;
  calls.straddr = text_of_address;
  auto* const vector = new Vector;
  vector->own.fid = {.fclass = FI_CLASS_AV, .context = nullptr, .ops = calls_of<Vector>()};
  vector->own.ops = &calls;
  *made = &vector->own;
  return 0;
}

int register_attributes(fid*, const fi_mr_attr* attributes, std::uint64_t flags, fid_mr** made) {
  if (flags != 0) return -FI_EBADFLAGS;
  if (attributes->iov_count != 1) return -FI_EINVAL;
  if (standin::count_regions() >= most_regions) return -FI_ENOMEM;
  auto* const begin = static_cast<std::byte*>(attributes->mr_iov->iov_base);
  standin::Region memory{.begin = begin, .real = begin, .bytes = attributes->mr_iov->iov_len};
  int gpu = -1;
  std::byte* const real = standin::real_gpu_memory(begin, memory.bytes, gpu);
  if (attributes->iface == FI_HMEM_CUDA) {
    if (!takes_gpu_memory()) return -FI_ENOSYS;
    if (settings().gpu == "refused") return -FI_ENOMEM;
    if (!real || gpu != attributes->device.cuda) return -FI_EFAULT;
    memory.real = real;
    memory.gpu = gpu;
  } else if (attributes->iface != FI_HMEM_SYSTEM) {
    return -FI_EINVAL;
  } else if (real) {
    return -FI_EFAULT;  // EFAULT as from the kernel, which finds no host pages at a GPU address
  } else if ((attributes->access & FI_REMOTE_WRITE) != 0 && memory.bytes > settings().writable) {
    return -FI_ENOMEM;
  }
  auto* const region = new Region;
  region->key = standin::add_region(memory);
  region->own.fid = {.fclass = FI_CLASS_MR, .context = nullptr, .ops = calls_of<Region>()};
  region->own.mem_desc = region;
  region->own.key = region->key;
  *made = &region->own;
  return 0;
}

int register_memory(fid* fid, const void* data, std::size_t bytes, std::uint64_t access, std::uint64_t,
                    std::uint64_t key, std::uint64_t flags, fid_mr** made, void*) {
  const iovec place{.iov_base = const_cast<void*>(data), .iov_len = bytes};
  fi_mr_attr attributes{};
  attributes.mr_iov = &place;
  attributes.iov_count = 1;
  attributes.access = access;
  attributes.requested_key = key;
  return register_attributes(fid, &attributes, flags, made);
}

Data real_data(const void* data, std::size_t bytes, const void* descriptor) {
  const standin::Region* const region =
      descriptor ? standin::find_region(static_cast<const Region*>(descriptor)->key) : nullptr;
  if (!region) return {static_cast<const std::byte*>(data)};
  return {region->at(reinterpret_cast<std::uint64_t>(data), bytes), region->gpu.value_or(-1)};
}

ssize_t send(fid_ep* fid, const void* data, std::size_t bytes, void* descriptor, fi_addr_t to, std::uint64_t tag,
             void* context) {
  Point& point = *reinterpret_cast<Point*>(fid);
  const Data its = real_data(data, bytes, descriptor);
  if (!point.enabled || to >= point.peers->size() || !its.real) return -FI_EINVAL;
  return point.endpoint->send(point.peers->at(to), its.real, bytes, tag, its.gpu, context);
}

ssize_t write_data(fid_ep* fid, const void* data, std::size_t bytes, void* descriptor, std::uint64_t said, fi_addr_t to,
                   std::uint64_t address, std::uint64_t key, void* context) {
  Point& point = *reinterpret_cast<Point*>(fid);
  const Data its = real_data(data, bytes, descriptor);
  if (!point.enabled || to >= point.peers->size() || !its.real) return -FI_EINVAL;
  return point.endpoint->write(point.peers->at(to), its.real, bytes, address, key, said, its.gpu, context);
}

ssize_t receive(fid_ep* fid, void* data, std::size_t bytes, void* descriptor, fi_addr_t, std::uint64_t tag,
                std::uint64_t ignore, void* context) {
  Point& point = *reinterpret_cast<Point*>(fid);
  const Data its = real_data(data, bytes, descriptor);
  if (!its.real) return -FI_EINVAL;
  return point.enabled ? point.endpoint->receive(const_cast<std::byte*>(its.real), bytes, tag, ignore, context)
                       : -FI_EOPBADSTATE;
}

int name_of(fid* fid, void* bytes, std::size_t* length) {
  const std::size_t room = *length;
  *length = sizeof(Address);
  if (room < sizeof(Address)) return -FI_ETOOSMALL;
  std::memcpy(bytes, &reinterpret_cast<Point*>(fid)->endpoint->address(), sizeof(Address));
  return 0;
}

int bind_point(fid* fid, struct fid* other, std::uint64_t) {
  Point& point = *reinterpret_cast<Point*>(fid);
  if (other->fclass == FI_CLASS_AV) {
    point.peers = &reinterpret_cast<Vector*>(other)->all;
    return 0;
  }
  if (other->fclass != FI_CLASS_CQ) return -FI_EINVAL;
  point.queue = reinterpret_cast<Queue*>(other);
  point.queue->points.push_back(&point);
  point.endpoint->bind(&point.queue->completions);
  return 0;
}

int enable_point(fid* fid, int command, void*) {
  Point& point = *reinterpret_cast<Point*>(fid);
  if (command != FI_ENABLE) return -FI_ENOSYS;
  if (!point.queue) return -FI_ENOCQ;
  if (!point.peers) return -FI_ENOAV;
  point.enabled = true;
  return 0;
}

// FI_OPT_CUDA_API_PERMITTED, in headers since 1.18: false requires peer-to-peer, since no other method is left.
int set_option(fid_t fid, int level, int name, const void* value, std::size_t bytes) {
  constexpr int cuda_api_permitted = 10;
  if (level != FI_OPT_ENDPOINT || name != cuda_api_permitted) return -FI_ENOPROTOOPT;
  if (bytes != sizeof(bool) || !takes_gpu_memory() || reinterpret_cast<Point*>(fid)->enabled) return -FI_EINVAL;
  return !*static_cast<const bool*>(value) && settings().gpu == "copies" ? -FI_EOPNOTSUPP : 0;
}

int open_point(fid_domain* fid, fi_info*, fid_ep** made, void*) {
  static fi_ops calls{.size = sizeof(fi_ops),
                      .close = close_object<Point>,
                      .bind = bind_point,
                      .control = enable_point,
                      .ops_open = nullptr,
                      .tostr = nullptr,
                      .ops_set = nullptr};
  static fi_ops_cm names{};
  names.size = sizeof(names);
  names.getname = name_of;
  static fi_ops_tagged messages{};
  messages.size = sizeof(messages);
  messages.send = send;
  messages.recv = receive;
  static fi_ops_rma writes{};
  writes.size = sizeof(writes);
  writes.writedata = write_data;
  static fi_ops_ep options{};
  options.size = sizeof(options);
  options.setopt = set_option;
  const Domain& domain = *reinterpret_cast<Domain*>(fid);
  auto* const point = new Point;
  point->own.fid = {.fclass = FI_CLASS_EP, .context = nullptr, .ops = &calls};
  point->own.ops = &options;
  point->own.cm = &names;
  point->own.tagged = &messages;
  point->own.rma = &writes;
  point->endpoint = std::make_unique<standin::Endpoint>(*domain.device, domain.number, domain.reads);
  *made = &point->own;
  return 0;
}

int open_domain(fid_fabric* fid, fi_info* info, fid_domain** made, void*) {
  static fi_ops_domain calls{};
  calls.size = sizeof(calls);
  calls.av_open = open_vector;
  calls.cq_open = open_queue;
  calls.endpoint = open_point;
  static fi_ops_mr memory{};
  memory.size = sizeof(memory);
  memory.reg = register_memory;
  memory.regattr = register_attributes;
  const std::vector<Device>& devices = settings().machine.devices;
  const auto device =
      std::ranges::find_if(devices, [&](const Device& each) { return each.name + "-rdm" == info->domain_attr->name; });
  if (device == devices.end()) return -FI_ENODEV;
  auto* const domain = new Domain;
  domain->own.fid = {.fclass = FI_CLASS_DOMAIN, .context = nullptr, .ops = calls_of<Domain>()};
  domain->own.ops = &calls;
  domain->own.mr = &memory;
  domain->device = &*device;
  domain->number = static_cast<int>(device - devices.begin());
  domain->reads = device_rdma(reinterpret_cast<Fabric*>(fid)->version);
  *made = &domain->own;
  return 0;
}

int open_fabric(fi_fabric_attr* attributes, fid_fabric** made, void*) {
  static fi_ops_fabric calls{};
  calls.size = sizeof(calls);
  calls.domain = open_domain;
  auto* const fabric = new Fabric;
  fabric->own.fid = {.fclass = FI_CLASS_FABRIC, .context = nullptr, .ops = calls_of<Fabric>()};
  fabric->own.ops = &calls;
  fabric->own.api_version = fabric->version = attributes->api_version;
  *made = &fabric->own;
  return 0;
}

void clean_up() {}

fi_provider provider{.version = FI_VERSION(204, 0),
                     .fi_version = FI_VERSION(2, 4),
                     .context = {},
                     .name = "efa",
                     .getinfo = get_info,
                     .fabric = open_fabric,
                     .cleanup = clean_up};

}  // namespace

extern "C" __attribute__((visibility("default"))) fi_provider* fi_prov_ini() { return &provider; }
