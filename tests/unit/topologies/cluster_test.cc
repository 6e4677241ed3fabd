#include "topologies/cluster.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "topologies/nccl_graph.h"
#include "topologies/topology_file.h"

namespace trireme::topologies {
namespace {

TEST(Gpus, PublishedSpellingsAreFound) {
  for (const char* name :
       {"A100", "A100-40GB", "A100-80GB", "A800-80GB", "B200", "B200(power limited)", "B300",
        "GB200", "GB300", "GB300/B300(276GiB)", "H100", "H100-80GB", "H100-96GB(HBM2e,500W)",
        "H200", "V100-16GB", "V100-32GB", "V100-SXM2-16GB", "NVIDIA H100 80GB HBM3",
        "NVIDIA A100-SXM4-80GB"}) {
    EXPECT_FALSE(find_gpu(name, "test").name.empty()) << name;
  }
  EXPECT_EQ(find_gpu("A100-80GB", "test").name, "A100-SXM4-80GB");
  EXPECT_EQ(find_gpu("H100-96GB(HBM2e,500W)", "test").power_watts, 500.0);
  EXPECT_EQ(find_gpu("H100-96GB(HBM2e,500W)", "test").full_power_watts, 700.0);
}

// Peak in TFLOP/s of bf16 (fp16 where the card has no bf16) and GB/s of memory, as datasheets say.
TEST(Gpus, CardsOfPublicThreadsAreKnown) {
  struct Card {
    const char* name;
    double tflops, memory;
  };
  for (const Card& card :
       {Card{"T4", 65, 320}, Card{"L4", 121, 300}, Card{"L40", 181, 864},
        Card{"RTX A6000", 155, 768}, Card{"RTX 5090", 209.5, 1792}, Card{"MI100", 92.3, 1229},
        Card{"MI210", 181, 1638}, Card{"MI250X", 191.5, 1638}, Card{"MI300A", 980, 5300},
        Card{"MI308X", 188, 5300}, Card{"GH200 120GB", 989.4, 4000}, Card{"GB10", 125, 273}}) {
    const Gpu& gpu = find_gpu(card.name, "test");
    const bool bf16 = gpu.peak_dense.contains(Precision::kBf16);
    const double peak = gpu.peak_dense.at(bf16 ? Precision::kBf16 : Precision::kFp16).value;
    EXPECT_NEAR(peak, card.tflops * 1e12, 0.02 * card.tflops * 1e12) << card.name;
    EXPECT_NEAR(gpu.memory_bandwidth.value, card.memory * 1e9, 0.02 * card.memory * 1e9)
        << card.name;
  }
}

TEST(Gpus, UnknownNameListsTheNearest) {
  try {
    find_gpu("H300", "--gpu");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("nearest"), std::string::npos);
  }
}

TEST(Gpus, NamesAndAliasesAreUnique) {
  std::vector<std::string> names;
  for (const Gpu& gpu : gpu_presets()) {
    EXPECT_FALSE(gpu.source.empty());
    names.push_back(gpu.name);
    for (const std::string& alias : gpu.aliases) {
      // An alias leads to its own card.
      EXPECT_EQ(find_gpu(alias, "test").name, gpu.name) << alias;
    }
  }
  std::ranges::sort(names);
  EXPECT_EQ(std::ranges::adjacent_find(names), names.end());
}

TEST(Presets, FixedNamesLoadWithACount) {
  for (const char* name : {"dgx1-v100",   "dgx-a100-40gb", "dgx-a100-80gb", "dgx-h100",
                           "hgx-h200",    "hgx-h20",       "hgx-h800",      "dgx-b200",
                           "dgx-b300",    "gb200-nvl72",   "gb300-nvl72",   "a100-pcie-80gb",
                           "h100-pcie",   "hgx-a800",      "hgx-h100-96gb", "l40s",
                           "a40",         "rtx4090",       "rtx-pro-6000",  "mi300x",
                           "mi325x",      "mi355x",        "aws-p4d",       "aws-p4de",
                           "aws-p5",      "aws-p5en",      "azure-ndv4",    "azure-ndv5",
                           "gcp-a3-high", "gcp-a3-mega",   "hgx-a100-4",    "hgx-h100-4",
                           "hgx-h200-4"}) {
    const Cluster cluster = load_cluster(std::string(name) + "x4");
    EXPECT_EQ(cluster.nodes, 4) << name;
    EXPECT_EQ(cluster.gpus, 4 * cluster.node.gpus) << name;
  }
  EXPECT_EQ(load_cluster("gb200-nvl72x2").gpus, 144);
  EXPECT_EQ(load_cluster("dgx-h100").gpus, 8);
  EXPECT_EQ(load_cluster("mi300x4").nodes, 4);
}

// p5.48xlarge and 8xH100 were no clusters.
TEST(Presets, GoByTheNamesOfCloudsAndCards) {
  const std::map<std::string, std::string> names = {{"h100", "dgx-h100"},
                                                    {"H200", "hgx-h200"},
                                                    {"DGX_H100x2", "dgx-h100x2"},
                                                    {"dgx-h100x1", "dgx-h100x1"},
                                                    {"a100-40gb", "dgx-a100-40gb"},
                                                    {"p5.48xlarge", "aws-p5"},
                                                    {"p5.48xlargex16", "aws-p5x16"},
                                                    {"a3-megagpu-8gx4", "gcp-a3-megax4"},
                                                    {"Standard_ND96isr_H100_v5", "azure-ndv5"},
                                                    {"mi300xx2", "mi300xx2"}};
  for (const auto& [name, preset] : names) {
    EXPECT_EQ(load_cluster(name).name, preset) << name;
  }
  EXPECT_EQ(load_cluster("8xH100").gpus, 8);
  EXPECT_EQ(load_cluster("64x H100").nodes, 8);
  EXPECT_EQ(load_cluster("2xh100").gpus, 2);
  EXPECT_EQ(load_cluster("2x4090").gpus, 2);
  for (const char* name : {"12xh100", "0xh100", "8xh101", "8xh100x2", "-8xh100", "h100x8"}) {
    EXPECT_THROW(load_cluster(name), Error) << name;
  }
}

// 4xp5.48xlarge was four GPUs of one instance, whoever meant four instances.
TEST(Presets, ACountBeforeANameOfNodesIsRefusedAsNeitherNodesNorGpus) {
  for (const char* name : {"4xp5.48xlarge", "16xdgx-h100", "2xgcp-a3-mega", "72xgb200-nvl72",
                           "9223372036854775807xdgx-h100"}) {
    try {
      load_cluster(name);
      ADD_FAILURE() << name;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("may mean nodes or GPUs"), std::string::npos)
          << error.what();
    }
  }
  for (const char* name :
       {"8xl40s", "4xmi300x", "2xrtx3090-nvlink", "16xrtx-pro-6000", "4xgh200"}) {
    EXPECT_GT(load_cluster(name).gpus, 1) << name;
  }
}

// h100x0 was told that 0xh100 would be right.
TEST(Presets, NoNodesOfACardAreToldAsNoNodes) {
  try {
    load_cluster("h100x0");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("asks for 0 nodes"), std::string::npos)
        << error.what();
  }
}

// A name longer than a file's may be ended as an internal error, with the whole name.
TEST(Presets, ANameTooLongForAFileIsNoInternalError) {
  for (const char c : {'9', 'x'}) {
    try {
      load_cluster(std::string(3000, c) + "xh100");
      ADD_FAILURE() << c;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("is neither a preset"), std::string::npos);
      EXPECT_LT(std::string(error.what()).size(), 400U);
    }
  }
}

TEST(Presets, BadNamesAreErrors) {
  for (const char* name : {"", "x", "x4", "dgx-h100x0", "dgx-h100x", "dgx-h1000", "rtx3090x2",
                           "/nonexistent.json", "dgx-h100x99999999999999999999"}) {
    EXPECT_THROW(load_cluster(name), Error) << name;
  }
}

TEST(Presets, ANameWithoutItsEndListsThoseThatBeginSo) {
  try {
    load_cluster("dgx-a100x1");
    FAIL() << "an unknown preset loaded";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("dgx-a100-40gb, dgx-a100-80gb"), std::string::npos)
        << error.what();
  }
}

TEST(Presets, NarrowedKeepsWholeNodes) {
  // 20 GPUs of 8-GPU nodes reach into a third node.
  const Cluster cluster = narrowed(load_cluster("dgx-h100x16"), 20);
  EXPECT_EQ(cluster.gpus, 20);
  EXPECT_EQ(cluster.nodes, 3);
  EXPECT_THROW(narrowed(cluster, 21), Error);
  EXPECT_THROW(narrowed(cluster, 0), Error);
}

// 256 GPUs of racks of 72 left every second group of 64 across two racks: experts over 64 ranks
// were priced at the network's rate, DeepSeek-V3 at 40 s where NVIDIA prints 13 to 15.
TEST(Cluster, RacksAreGivenInEqualParts) {
  const Cluster racks = narrowed(load_cluster("gb200-nvl72x4"), 256);
  EXPECT_EQ(racks.gpus, 256);
  EXPECT_EQ(racks.nodes, 4);
  EXPECT_EQ(racks.node.gpus, 64);
  EXPECT_EQ(narrowed(load_cluster("gb200-nvl72x4"), 288).node.gpus, 72);
  EXPECT_EQ(narrowed(load_cluster("gb200-nvl72x4"), 64).node.gpus, 72);
  EXPECT_EQ(narrowed(load_cluster("gb200-nvl72x2"), 73).node.gpus, 72);
  EXPECT_EQ(narrowed(load_cluster("dgx-h100x2"), 12).node.gpus, 8);
}

TEST(TopologyFile, WrittenReadsBackTheSame) {
  for (const char* name :
       {"dgx-h100x16", "gb200-nvl72x2", "l40s", "mi300x", "rtx3090", "aws-p4dx3"}) {
    const Cluster cluster = load_cluster(name);
    const std::string path = testing::TempDir() + "/topology.json";
    std::ofstream(path) << cluster_to_json(cluster).dump(2);
    const Cluster again = load_cluster(path);
    EXPECT_EQ(cluster_to_json(again).dump(), cluster_to_json(cluster).dump()) << name;
    EXPECT_EQ(again.gpus, cluster.gpus);
    std::remove(path.c_str());
  }
}

// The example of docs/topology_format.md is a valid file.
TEST(TopologyFile, DocumentedExampleLoads) {
  std::ifstream page(TRIREME_SOURCE_DIR "/docs/topology_format.md");
  std::string text((std::istreambuf_iterator<char>(page)), std::istreambuf_iterator<char>());
  const std::size_t begin = text.find("```json") + 7;
  const std::string path = testing::TempDir() + "/documented_topology.json";
  std::ofstream(path) << text.substr(begin, text.find("```", begin) - begin);
  const Cluster cluster = load_cluster(path);
  EXPECT_EQ(cluster.gpus, 512);
  EXPECT_EQ(cluster.network.oversubscription, 2.0);
  std::remove(path.c_str());
}

TEST(TopologyFile, WrongInputIsNamed) {
  const nlohmann::ordered_json good = cluster_to_json(load_cluster("dgx-h100x2"));
  const auto error_of = [](const nlohmann::ordered_json& json) {
    const std::string path = testing::TempDir() + "/bad_topology.json";
    std::ofstream(path) << json.dump();
    std::string message;
    try {
      load_cluster(path);
    } catch (const Error& error) {
      message = error.what();
    }
    std::remove(path.c_str());
    return message;
  };
  auto bare = good;
  bare["node"]["nic"] = 400;
  EXPECT_NE(error_of(bare).find("#/node/nic"), std::string::npos) << error_of(bare);
  auto unknown = good;
  unknown["node"]["nvlinks"] = 18;
  EXPECT_NE(error_of(unknown).find("nvlinks"), std::string::npos);
  auto fabric = good;
  fabric["node"]["fabric"] = "torus";
  EXPECT_NE(error_of(fabric).find("nvswitch"), std::string::npos);
  auto alone = good;
  alone["network"] = {{"name", "none"}, {"kind", "none"}};
  EXPECT_NE(error_of(alone).find("no network"), std::string::npos);
  auto format = good;
  format["format"] = "something else";
  EXPECT_NE(error_of(format).find("trireme.topology/1"), std::string::npos);
}

TEST(TopologyFile, OneNodeNeedsNoNetwork) {
  nlohmann::ordered_json json = cluster_to_json(load_cluster("rtx3090"));
  json.erase("network");
  const std::string path = testing::TempDir() + "/one_node_topology.json";
  std::ofstream(path) << json.dump();
  EXPECT_EQ(load_cluster(path).network.kind, Network::Kind::kNone);
  json["nodes"] = 2;
  std::ofstream(path) << json.dump();
  EXPECT_THROW(load_cluster(path), Error);
  std::remove(path.c_str());
}

GroupShape shape(const char* cluster, std::int64_t degree, std::int64_t stride) {
  return group_shape(load_cluster(cluster), degree, stride);
}

TEST(Groups, ShapesOfAxes) {
  // Tensor parallel 8 fills a node of 8: one group a node.
  EXPECT_EQ(shape("dgx-h100x4", 8, 1), (GroupShape{8, 8, 1, 1}));
  // Tensor parallel 2: four groups a node.
  EXPECT_EQ(shape("dgx-h100x4", 2, 1), (GroupShape{2, 2, 1, 4}));
  // Data parallel over nodes, neighbours 8 apart: one member a node, and eight such groups share
  // its NICs.
  EXPECT_EQ(shape("dgx-h100x4", 4, 8), (GroupShape{4, 1, 8, 8}));
  // Neighbours 2 apart, 16 members: ranks 0, 2, … 30; four a node, two groups.
  EXPECT_EQ(shape("dgx-h100x4", 16, 2), (GroupShape{16, 4, 2, 2}));
  // All 32 ranks.
  EXPECT_EQ(shape("dgx-h100x4", 32, 1), (GroupShape{32, 8, 1, 1}));
  // Six ranks in nodes of eight: the group of ranks 6..11 spans two nodes, so three a node, but two
  // of it in the first.
  EXPECT_EQ(shape("dgx-h100x3", 6, 1), (GroupShape{6, 3, 1, 2, 2}));
}

TEST(Groups, OfOneNodeNeverTouchTheNetwork) {
  for (const std::string& name : cluster_preset_names()) {
    const Cluster preset = load_cluster(name);
    for (std::int64_t gpus = 2; gpus <= preset.gpus; ++gpus) {
      const Cluster some = narrowed(preset, gpus);
      for (std::int64_t degree = 2; degree <= gpus; ++degree) {
        if (gpus % degree == 0) {
          EXPECT_EQ(group_shape(some, degree, 1).ranks_per_node, degree) << name << gpus;
          EXPECT_EQ(group_shape(some, degree, gpus / degree).ranks_per_node, degree)
              << name << gpus;
        }
      }
    }
  }
}

TEST(Groups, TheNodeWithFewestMembersSetsThePace) {
  // 10 GPUs on two nodes of 8: two members in the second node, which bring two NICs of 50 GB/s.
  const Cluster cluster = narrowed(load_cluster("dgx-h100x2"), 10);
  const GroupShape all = group_shape(cluster, 10, 1);
  EXPECT_EQ(all.fewest_per_node, 2);
  GroupShape alone = all;
  alone.concurrent_per_node = 1;
  EXPECT_DOUBLE_EQ(nccl_graph(cluster, alone).net_total, 100.0);
}

TEST(Groups, RacksAreNodes) {
  // An NVL72 rack is one node.
  EXPECT_EQ(shape("gb200-nvl72x2", 64, 1).ranks_per_node, 32);
  EXPECT_EQ(shape("gb200-nvl72x2", 72, 1), (GroupShape{72, 72, 1, 1}));
}

}  // namespace
}  // namespace trireme::topologies
