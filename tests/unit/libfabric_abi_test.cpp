// The layouts that the probe assumes of libfabric are those of its headers, where they are installed.
#if __has_include(<rdma/fabric.h>)
#include <gtest/gtest.h>
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>

#include "topo/libfabric/abi.hpp"

namespace p5::ofi {
namespace {

static_assert(offsetof(Info, next) == offsetof(fi_info, next));
static_assert(offsetof(Info, domain) == offsetof(fi_info, domain_attr));
static_assert(offsetof(Info, fabric) == offsetof(fi_info, fabric_attr));
static_assert(offsetof(Info, nic) == offsetof(fi_info, nic));
static_assert(offsetof(DomainAttributes, name) == offsetof(fi_domain_attr, name));
static_assert(offsetof(FabricAttributes, name) == offsetof(fi_fabric_attr, name));
static_assert(offsetof(FabricAttributes, provider) == offsetof(fi_fabric_attr, prov_name));
static_assert(offsetof(Nic, device) == offsetof(fid_nic, device_attr));
static_assert(offsetof(Nic, bus) == offsetof(fid_nic, bus_attr));
static_assert(offsetof(Nic, link) == offsetof(fid_nic, link_attr));
static_assert(offsetof(DeviceAttributes, name) == offsetof(fi_device_attr, name));
static_assert(offsetof(BusAttributes, type) == offsetof(fi_bus_attr, bus_type));
static_assert(offsetof(BusAttributes, domain) == offsetof(fi_bus_attr, attr.pci.domain_id));
static_assert(offsetof(BusAttributes, bus) == offsetof(fi_bus_attr, attr.pci.bus_id));
static_assert(offsetof(BusAttributes, device) == offsetof(fi_bus_attr, attr.pci.device_id));
static_assert(offsetof(BusAttributes, function) == offsetof(fi_bus_attr, attr.pci.function_id));
static_assert(offsetof(LinkAttributes, speed) == offsetof(fi_link_attr, speed));
static_assert(offsetof(LinkAttributes, state) == offsetof(fi_link_attr, state));

TEST(LibfabricAbi, values_are_those_of_the_header) {
  EXPECT_EQ(FI_BUS_PCI, 1);
  EXPECT_EQ(FI_LINK_DOWN, 1);
  EXPECT_EQ(FI_LINK_UP, 2);
}

}  // namespace
}  // namespace p5::ofi
#endif
