#include "topologies/compose.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace trireme::topologies {
namespace {

struct Case {
  const char* gpu;
  int per_node;
  const char* words;
  int nics;
  double gbit;
  const char* network;
};

TEST(Compose, PublishedDescriptions) {
  const Case cases[] = {
      {"A100-80GB", 8, "NVIDIA Selene (DGX A100, NVSwitch, 8x HDR IB 200 Gb/s per node)", 8, 200,
       "HDR InfiniBand"},
      {"A100-80GB", 8, "NVIDIA Selene", 8, 200, "HDR InfiniBand"},
      {"A100-80GB", 8, "Jean Zay (8x A100-80GB/node NVLink, 4 Omni-Path 100G links/node)", 4, 100,
       "Omni-Path"},
      {"V100-32GB", 4, "Jean Zay V100 (4/node, Omni-Path)", 4, 100, "Omni-Path"},
      {"V100-SXM2-16GB", 8,
       "4x 8-GPU V100-SXM2-16GB (NVLink hybrid mesh), one 100 Gb/s EDR IB port per node", 1, 100,
       "EDR InfiniBand"},
      {"A100-80GB", 8, "IBM cloud, 400 Gb/s per node", 4, 100, "HDR InfiniBand"},
      {"H100-80GB", 8, "IBM cloud, 800 Gb/s per node", 8, 100, "NDR InfiniBand"},
      {"A100-80GB", 8, "8x A100-80GB SXM per node, 4x100 Gb/s RoCE per node", 4, 100, "RoCE 100G"},
      {"A100-40GB", 8, "MosaicML platform; 1600 Gb/s per node RoCE", 8, 200, "RoCE 200G"},
      {"H100-80GB", 8, "MosaicML platform", 8, 400, "RoCE 400G"},
      {"A100-40GB", 8, "96x DGX-A100 (8x40G)", 8, 200, "HDR InfiniBand"},
      {"A100-40GB", 8, "12x Supermicro A100-40GB, 4x HDR 200 IB + switch", 4, 200,
       "HDR InfiniBand"},
      {"A800-80GB", 8, "A800, 4 HDR IB per node", 4, 200, "HDR InfiniBand"},
      {"H100-80GB", 8, "384 DGX H100 class, NVSwitch + 8x400G IB", 8, 400, "NDR InfiniBand"},
      {"H100-96GB(HBM2e,500W)", 8, "Meta Grand Teton, 8x H100 96GB, NVLink + 400 Gb/s RDMA per GPU",
       8, 400, "RoCE 400G"},
      {"H200", 8, "WhiteFiber 8x H200 nodes, 400 Gb/s CX-7 per GPU", 8, 400, "RoCE 400G"},
      {"H100-80GB", 8, "Hugging Face H100 cluster (8x H100 SXM per node, EFA)", 32, 100, "EFA v2"},
      {"H100-80GB", 8, "2x DGX H100", 8, 400, "NDR InfiniBand"},
      {"H100-80GB", 0, "", 8, 400, "NDR InfiniBand"},
  };
  for (const Case& c : cases) {
    const Cluster cluster = compose_cluster(c.gpu, c.per_node, 64, c.words);
    EXPECT_EQ(cluster.node.nics, c.nics) << c.words;
    EXPECT_NEAR(cluster.node.nic.value * 8e-9, c.gbit, 1e-9) << c.words;
    if (std::string(c.words).find("IBM") == std::string::npos) {
      EXPECT_EQ(cluster.network.name, c.network) << c.words;
    }
    EXPECT_EQ(cluster.gpus, 64);
    EXPECT_EQ(cluster.nodes, (64 + cluster.node.gpus - 1) / cluster.node.gpus);
  }
}

TEST(Compose, TraysStayInTheirRack) {
  // 64 GB200 in trays of four are one NVL72 rack.
  const Cluster cluster = compose_cluster("GB200", 4, 64, "NVIDIA DGX (DGX-GB200)");
  EXPECT_EQ(cluster.node.gpus, 72);
  EXPECT_EQ(cluster.nodes, 1);
}

// Hosts of four H200 were half boards with switches, whose pairs have three times the links.
TEST(Compose, HostsOfFourAreBoardsOfFour) {
  const Cluster hosts = compose_cluster("H200", 4, 32, "");
  EXPECT_EQ(hosts.node.fabric, Node::Fabric::kMesh);
  EXPECT_EQ(hosts.node.nics, 4);
  EXPECT_EQ(hosts.nodes, 8);
  const Cluster part = compose_cluster("H200", 4, 4, "");  // may be half of eight
  EXPECT_EQ(part.node.fabric, Node::Fabric::kNvSwitch);
  EXPECT_EQ(part.node.nvlink_domain, 4);
  EXPECT_EQ(compose_cluster("V100-32GB", 4, 4, "").node.fabric, Node::Fabric::kMesh);
}

TEST(Compose, SmallNodesAndOversubscription) {
  const Cluster two = compose_cluster("H200", 2, 2, "");
  EXPECT_EQ(two.node.gpus, 2);
  EXPECT_EQ(two.node.nvlink_domain, 2);
  const Cluster meta = compose_cluster("H100-80GB", 8, 16384,
                                       "Meta 24K-GPU cluster (Grand Teton, 8x400G RoCE, 3-layer "
                                       "Clos, 1:7 oversubscription above the 3072-GPU pod)");
  EXPECT_EQ(meta.network.oversubscription, 7.0);
  EXPECT_EQ(meta.network.nodes_per_unit, 384);  // 3072 / 8
  EXPECT_EQ(meta.node.nics, 8);
  EXPECT_THROW(compose_cluster("H999", 8, 8, ""), Error);
  EXPECT_THROW(compose_cluster("H100", 8, 0, ""), Error);
}

// Digits without end left std::stod's exception, an overflowing count, or no stack.
TEST(Compose, EndlessDigitsAreAnErrorNotACrash) {
  const std::string digits(400, '9');
  for (const std::string& words :
       {digits + " Gb/s per node", "8x" + digits + " Gb/s", digits + "x 100 Gb/s",
        digits + " Gb/s per GPU", "1:" + digits + " oversubscription",
        "1:7 oversubscription above the " + digits + "-GPU pod",
        std::string(300'000, '8') + "x hdr"}) {
    EXPECT_THROW(compose_cluster("H100", 8, 64, words), Error) << words.substr(0, 60);
  }
}

}  // namespace
}  // namespace trireme::topologies
