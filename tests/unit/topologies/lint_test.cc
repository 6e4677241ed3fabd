#include "topologies/lint.h"

#include <gtest/gtest.h>

#include "topologies/import/import.h"
#include "topologies/node_layout.h"

namespace trireme::topologies {
namespace {

const Finding* find(const std::vector<Finding>& findings, const std::string& where,
                    const std::string& words) {
  for (const Finding& finding : findings) {
    if (finding.where == where && finding.detail.find(words) != std::string::npos) {
      return &finding;
    }
  }
  return nullptr;
}

bool only_infos(const std::vector<Finding>& findings) {
  for (const Finding& finding : findings) {
    if (finding.severity != Finding::Severity::kInfo) {
      return false;
    }
  }
  return true;
}

TEST(Lint, SoundNodesHaveNoFindings) {
  for (const char* name : {"dgx-a100-80gb", "dgx-h100", "hgx-h200", "dgx-b200", "mi300x", "aws-p5",
                           "dgx1-v100", "azure-ndv4"}) {
    EXPECT_TRUE(only_infos(lint_node(load_cluster(name)))) << name;
  }
}

// Of an adapter whose own slot nobody told, the GPUs' PCIe says nothing.
TEST(Lint, TheSlotOfAnAdapterIsNotTheGpus) {
  EXPECT_EQ(find(lint_node(load_cluster("l40s")), "NIC0", ""), nullptr);
}

// A GPU at x4, an adapter of 400 Gbit/s at x8 of generation 4, one on no GPU's side.
TEST(Lint, NarrowLinksAndFarAdapters) {
  Cluster cluster = load_cluster("dgx-h100");
  NodeLayout layout = layout_of(cluster.node);
  layout.gpus[3].rate = BytesPerSecond(15.75e9);
  layout.nics[1].rate = BytesPerSecond(15.75e9);
  layout.nics[2] = {9, 9, 9, 9, {}};
  cluster.node.layout = make_layout(layout.gpus, layout.nics, {});
  const std::vector<Finding> findings = lint_node(cluster);
  EXPECT_NE(find(findings, "GPU3", "15.8 of the 63 GB/s"), nullptr);
  EXPECT_NE(find(findings, "NIC1", "107 of the adapter's 400 Gbit/s"), nullptr);
  EXPECT_NE(find(findings, "NIC2", "SYS away"), nullptr);
  EXPECT_NE(find(findings, "GPU2", "nearest adapter is NODE away"), nullptr);
  EXPECT_EQ(find(findings, "GPU4", ""), nullptr);
  EXPECT_EQ(findings.size(), 4U);
}

TEST(Lint, UnlikeLinksAndHosts) {
  Cluster cluster = load_cluster("mi300x");
  LinkCounts links = fabric_links(cluster.node);
  links[2][5] = links[5][2] = 0;
  const NodeLayout layout = layout_of(cluster.node);
  Cluster broken = cluster;
  broken.node.layout = make_layout(layout.gpus, layout.nics, links);
  EXPECT_NE(find(lint_node(broken), "GPU5", "6 links"), nullptr);
  const auto unlike = lint_hosts({cluster, broken, cluster}, {"a", "b", "c"});
  ASSERT_EQ(unlike.size(), 1U);
  EXPECT_EQ(unlike[0].where, "b");
}

// A run that took as long as without GPUDirect, or with one adapter, is explained by that.
TEST(Lint, SlowCollectivesAreExplained) {
  const Cluster cluster = load_cluster("dgx-h100x2");
  GroupShape all = group_shape(cluster, 16, 1);
  all.concurrent_per_node = 1;
  const double bytes = 8589934592.0;
  const auto seconds = [&](const Cluster& machine) {
    return collective_time(machine, shipped_profile(), Collective::kAllReduce, all,
                           Bytes(8589934592))
        .time.value;
  };
  const auto linted = [&](double took) {
    return lint_measured({cluster, all, Collective::kAllReduce, "log", bytes, took},
                         shipped_profile());
  };
  EXPECT_TRUE(only_infos(linted(1.05 * seconds(cluster))));
  Cluster one = cluster;
  one.node.nics = 1;
  const auto findings = linted(seconds(one));
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].severity, Finding::Severity::kError);
  EXPECT_NE(findings[0].detail.find("one adapter in use"), std::string::npos) << findings[0].detail;
  EXPECT_NE(findings[0].fix.find("NCCL_IB_HCA"), std::string::npos);
  EXPECT_NE(linted(5000 * seconds(cluster))[0].fix.find("no single cause"), std::string::npos);
}

}  // namespace
}  // namespace trireme::topologies
