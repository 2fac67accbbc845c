// The part of libfabric's binary interface that the probe reads, so that neither its headers nor the library is needed
// to build or to start. These layouts have stayed since ABI 1.2 (2018): what came later was appended. A test compares
// them with the headers where they are installed. Source: man pages fi_getinfo(3), fi_fabric(3), fi_nic(3).
#pragma once

#include <cstddef>
#include <cstdint>

namespace p5::ofi {

struct DomainAttributes {
  void* domain;
  char* name;
};

struct FabricAttributes {
  void* fabric;
  char *name, *provider;
};

struct DeviceAttributes {
  char *name, *device_id, *device_version, *vendor_id, *driver, *firmware;
};

struct BusAttributes {
  int type;  // 1: PCI
  std::uint16_t domain;
  std::uint8_t bus, device, function;
};

struct LinkAttributes {
  char* address;
  std::size_t mtu;
  std::size_t speed;  // bit/s
  int state;          // 1: down, 2: up
  char* network_type;
};

struct Nic {
  struct {
    std::size_t kind;
    void *context, *operations;
  } id;
  DeviceAttributes* device;
  BusAttributes* bus;
  LinkAttributes* link;
  void* provider;
};

struct Info {
  Info* next;
  std::uint64_t capabilities, mode;
  std::uint32_t address_format;
  std::size_t source_length, destination_length;
  void *source, *destination, *handle;
  void *transmit, *receive, *endpoint;
  DomainAttributes* domain;
  FabricAttributes* fabric;
  Nic* nic;
};

using Version = std::uint32_t (*)();
using GetInfo = int (*)(std::uint32_t version, const char* node, const char* service, std::uint64_t flags,
                        const Info* hints, Info** found);

}  // namespace p5::ofi
