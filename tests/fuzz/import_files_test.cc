// Whatever a machine's tools print, spoiled in any way: importing it gives a cluster that every
// command can use and that reads back the same, or one clear line of trireme::Error.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/json_reader.h"
#include "mutate.h"
#include "topologies/collective_cost.h"
#include "topologies/import/import.h"
#include "topologies/import/lspci.h"
#include "topologies/routes.h"
#include "topologies/topology_file.h"

namespace trireme {
namespace {

struct Sample {
  const char* importer;
  std::string text;
};
// NOLINTNEXTLINE(readability-function-size): a table, one text an importer
const std::vector<Sample>& samples() {
  static const std::vector<Sample> all = {
      {"nvidia-smi topo -m",
       "\t\033[4mGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\033[0m\n"
       "GPU0\t X \tNV4\tNODE\tSYS\tPIX\tSYS\t0-3\t0\nGPU1\tNV4\t X \tNODE\tSYS\tPXB\tSYS\t0-3\t0\n"
       "GPU2\tNODE\tNODE\t X \tSYS\tNODE\tSYS\t0-3\t0\nGPU3\tSYS\tSYS\tSYS\t X \tSYS\tPHB\t4-7\t1\n"
       "NIC0\tPIX\tPXB\tNODE\tSYS\t X \tSYS\n\nNIC Legend:\n  NIC0: mlx5_0\n  NIC1: mlx5_bond_0\n"},
      {"rocm-smi",
       "==== Hops between two GPUs ====\n     GPU0 GPU1 GPU2\nGPU0 0 1 2\nGPU1 1 0 1\nGPU2 2 1 0\n"
       "==== Link Type between two GPUs ====\n     GPU0 GPU1 GPU2\nGPU0 0 XGMI PCIE\nGPU1 XGMI 0 "
       "XGMI\n"
       "GPU2 PCIE XGMI 0\n==== Numa Nodes ====\nGPU[0] : (Topology) Numa Node: 0\n"},
      {"amd-smi",
       "LINK TYPE TABLE:\n             0000:c1:00.0 0000:c6:00.0\n0000:c1:00.0 SELF XGMI\n"
       "0000:c6:00.0 XGMI SELF\nWEIGHT TABLE:\n 0000:c1:00.0 0000:c6:00.0\n0000:c1:00.0 0 15\n"},
      {"nvidia-smi with peers",
       "\tGPU0\tGPU1\nGPU0\t X \tPHB\nGPU1\tPHB\t X \n \tGPU0\tGPU1\n GPU0\tX\tGNS\n "
       "GPU1\tOK\tX\n"},
      {"NCCL log, tree",
       "#  Rank  0 Pid 1 on n1 device  0 [0x18] NVIDIA H200\n"
       "n:1:2 [0] NCCL INFO === System : maxBw 48.0 totalBw 370.8 ===\n"
       "n:1:2 [0] NCCL INFO CPU/0-0 (1/2/-1)\nn:1:2 [0] NCCL INFO + SYS[16.0] - CPU/0-1\n"
       "n:1:2 [0] NCCL INFO + PCI[48.0] - PCI/0-16000 (10)\n"
       "n:1:2 [0] NCCL INFO        + PCI[48.0] - GPU/0-18000 (0)\n"
       "n:1:2 [0] NCCL INFO               + NVL[370.8] - NVS/0-0\n"
       "n:1:2 [0] NCCL INFO        + PCI[48.0] - NIC/0-19000\n"
       "n:1:2 [0] NCCL INFO               + NET[48.0] - NET/0-0 (0/a8/1/50.0)\n"
       "n:1:2 [0] NCCL INFO ==========\n"},
      {"NCCL XML",
       "<system version=\"1\"><cpu numaid=\"0\" arch=\"x86_64\" vendor=\"AuthenticAMD\">"
       "<pci busid=\"a\" class=\"0x060400\" link_speed=\"16.0 GT/s PCIe\" link_width=\"16\">"
       "<pci busid=\"b\" class=\"0x030200\" vendor=\"0x10de\" device=\"0x20b2\" link_width=\"8\" "
       "link_speed=\"16.0 GT/s\"><gpu dev=\"0\" sm=\"80\" rank=\"0\"><nvlink target=\"c\" "
       "count=\"4\" "
       "tclass=\"0x030200\"/></gpu></pci><pci busid=\"d\" class=\"0x020700\"><nic><net "
       "name=\"mlx5_0\" "
       "speed=\"200000\" port=\"1\"/></nic></pci></pci><pci busid=\"c\" class=\"0x030200\"><gpu "
       "dev=\"1\" "
       "sm=\"80\"><nvlink target=\"b\" count=\"4\"/></gpu></pci></cpu></system>"},
      {"lstopo",
       "<topology version=\"2.0\"><object type=\"Machine\"><object type=\"Package\"><object "
       "type=\"Bridge\" "
       "bridge_type=\"0-1\"><object type=\"PCIDev\" pci_type=\"0302 [10de:26b9] [1:2] a1\" "
       "pci_link_speed=\"31.5\"/><object type=\"PCIDev\" pci_type=\"0207 [15b3:101b] [1:2] "
       "00\"><object "
       "type=\"OSDev\" name=\"mlx5_0\" "
       "osdev_type=\"3\"/></object></object></object></object></topology>"},
      {"Slurm trees",
       "SwitchName=s0 Nodes=dev[0-5]\nSwitchName=s1 Nodes=dev[6-11],x\nSwitchName=s3 "
       "Switches=s[0-1]\n"},
      {"Slurm blocks",
       "BlockName=b1 Nodes=node[1-32]\nBlockName=b2 Nodes=node[33-40]\nBlockSizes=16,32\n"},
      {"topograph",
       "switches:\n  S1:\n    switches: [S2, S3]\nblocks:\n- switch: S2\n  nodes: [\"I[21-22]\", "
       "I25]\n"
       "- switch: S3\n  nodes: [\"I[34-36]\"]\n"},
      {"topology.yaml",
       "- topology: t\n  cluster_default: true\n  tree:\n    switches:\n    - switch: r\n      "
       "children: a\n"
       "    - switch: a\n      nodes: n[1-4]\n"},
      {"topology.yaml, blocks",
       "- topology: b\n  block:\n    block_sizes: [2, 4]\n    blocks:\n    - block: b1\n      "
       "nodes: n[1-2]\n    - block: b2\n      nodes: n[3-4]\n    - block: b3\n      nodes: n5\n"},
      {"ibnetdiscover",
       "switchguid=0x5(5)\nSwitch 24 \"S-5\"  # \"leaf\" base port 0 lid 6 lmc 0\n"
       "[22] \"H-a1\"[1](a5) # \"node-1 mlx5_0\" lid 4 4xHDR\n[6] \"S-6\"[3] # \"spine\" lid 3 "
       "4xNDR\n"},
      {"NCCL log, paths",
       "n:1:2 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB ; OOB eth0:1<0>\n"
       "n:1:2 [0] NCCL INFO GPU/1A :GPU/0-1a (0/5000.0/LOC) GPU/0-ca (2/264.0/NVL) NET/0-0 "
       "(2/24/PIX)\n"
       "n:1:2 [0] NCCL INFO GPU/CA :GPU/0-1a (2/264.0/NVL) GPU/0-ca (0/5000/LOC) NET/0-0 "
       "(4/10/SYS)\n"
       "n:1:2 [0] NCCL INFO comm 0x1 rank 0 nRanks 4 nNodes 2 localRanks 2\nChannel 00/24 : 0 1\n"
       "n:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC\n"
       "n:1:2 [0] NCCL INFO Channel 00/0 : 2[0] -> 0[0] [receive] via NET/IB/0\n"
       "n:1:2 [0] NCCL INFO NCCL_ALGO set by environment to Ring.\n"
       "n:1:2 [0] p.cc:1 NCCL WARN P2P is disabled between connected GPUs 1 and 0. You\n"},
      {"NCCL log, ranks",
       "n:1:2 [0] NCCL INFO NET/Socket : Using [0]ens5:10.0.0.1<0> [1]ens6:10.0.0.2<0>\n"
       "n:1:2 [0] NCCL INFO NET/OFI Selected provider is efa, fabric is efa (found 4 nics)\n"
       "n:1:2 [0] NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0\n"
       "n:1:3 [1] NCCL INFO comm 0x1 rank 1 nranks 2 cudaDev 1\n"
       "n:1:2 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct/direct\n"},
      {"ibnetdiscover --ports",
       "CA 134 1 0xa1 4x EDR - SW 17 10 0xb1 ( 'o1 HCA-1' - 'l1' )\n"
       "SW 17 10 0xb1 4x EDR - CA 134 1 0xa1 ( 'l1' - 'o1 HCA-1' )\n"
       "SW 17 1 0xb1 4x EDR - SW 15 1 0xc1 ( 'l1' - 's1' )\n"
       "SW 18 2 0xb2 4x EDR - CA 13 1 0xa2 ( 'l2' - 'o2 HCA-1' )\n"
       "SW 18 1 0xb2 4x EDR - SW 16 1 0xc2 ( 'l2' - 's2' )\n"
       "SW 15 2 0xc1 4x EDR - SW 14 1 0xd1 ( 's1' - 'core' )\n"
       "SW 16 2 0xc2 4x EDR - SW 14 2 0xd1 ( 's2' - 'core' )\nSW 15 3 0xc1 4x ??? 's1'\n"}};
  return all;
}

void use(const topologies::Cluster& cluster) {
  ASSERT_GT(cluster.gpus, 0);
  const std::string written = topologies::cluster_to_json(cluster).dump();
  const nlohmann::json json = nlohmann::json::parse(written);
  JsonReader reader(json, "again");
  const topologies::Cluster again = topologies::read_cluster(reader, topologies::network_presets());
  EXPECT_EQ(topologies::cluster_to_json(again).dump(), written);
  EXPECT_FALSE(topologies::matrix_text(cluster.node).empty());
  if (cluster.gpus > 1) {
    EXPECT_GT(topologies::route(cluster, 0, cluster.gpus - 1).bottleneck.value, 0.0);
    const auto time = topologies::collective_time(
        cluster, topologies::shipped_profile(), topologies::Collective::kAllReduce,
        topologies::group_shape(cluster, cluster.gpus, 1), Bytes(1 << 20));
    EXPECT_GT(time.time.value, 0.0);
    EXPECT_TRUE(std::isfinite(time.time.value));
  }
}

// The one that TRIREME_FUZZ_IMPORTER names, or each in turn.
std::size_t importer_of(std::uint64_t seed) {
  const char* named = std::getenv("TRIREME_FUZZ_IMPORTER");
  if (named == nullptr) {
    return seed % samples().size();
  }
  const auto found = std::ranges::find_if(
      samples(), [named](const Sample& sample) { return std::string(sample.importer) == named; });
  if (found == samples().end()) {
    throw Error("TRIREME_FUZZ_IMPORTER", std::string("is '") + named + "', which is no importer");
  }
  return static_cast<std::size_t>(found - samples().begin());
}

// Each importer has its share of the cases; what each accepts is printed.
TEST(Fuzz, Imports) {
  const std::uint64_t cases = fuzz::case_count(6000);
  std::vector<std::uint64_t> accepted(samples().size());
  std::vector<std::uint64_t> tried(samples().size());
  topologies::ImportOptions options;
  options.gpu = topologies::find_gpu("A100", "test");
  for (std::uint64_t seed = 0; seed < cases; ++seed) {
    fuzz::Random random(seed);
    const std::size_t importer = importer_of(seed);
    ++tried[importer];
    std::string text = samples()[importer].text;
    for (std::size_t i = random.below(6); i > 0; --i) {
      fuzz::spoil_text(text, random);
    }
    try {
      use(topologies::import_topology(text, "file", options).cluster);
      ++accepted[importer];
    } catch (const Error& error) {
      const std::string line = error.what();
      EXPECT_EQ(line.find('\n'), std::string::npos) << "seed " << seed << ": " << line;
      EXPECT_LT(line.size(), 1000U) << "seed " << seed;
    } catch (const std::exception& error) {
      ADD_FAILURE() << "seed " << seed << " threw " << error.what() << " for " << text;
    }
  }
  for (std::size_t i = 0; i < samples().size(); ++i) {
    if (tried[i] > 0) {
      std::cout << samples()[i].importer << ": " << accepted[i] << " of " << tried[i]
                << " accepted\n";
      EXPECT_GT(accepted[i], tried[i] / 20) << samples()[i].importer;
      EXPECT_LT(accepted[i], tried[i]) << samples()[i].importer;
    }
  }
}

TEST(Fuzz, Lspci) {
  const std::uint64_t cases = fuzz::case_count(6000);
  std::uint64_t doubts = 0;
  for (std::uint64_t seed = 0; seed < cases; ++seed) {
    fuzz::Random random(seed);
    std::string text =
        "15:01.0 PCI bridge: Broadcom\n\t\tACSCtl:\tSrcValid+ TransBlk-\n"
        "17:00.0 3D controller: NVIDIA\n\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16\n"
        "\t\tLnkSta:\tSpeed 8GT/s (downgraded), Width x4 (downgraded)\n";
    for (std::size_t i = random.below(6); i > 0; --i) {
      fuzz::spoil_text(text, random);
    }
    for (const topologies::Doubt& doubt : topologies::lspci_doubts(text)) {
      EXPECT_LT(doubt.detail.size(), 1000U) << "seed " << seed;
      ++doubts;
    }
  }
  EXPECT_GT(doubts, cases / 20);
}

TEST(Fuzz, ListsOfHosts) {
  const std::uint64_t cases = fuzz::case_count(6000);
  topologies::ImportOptions options;
  options.gpu = topologies::find_gpu("A100", "test");
  std::uint64_t accepted = 0;
  for (std::uint64_t seed = 0; seed < cases; ++seed) {
    fuzz::Random random(seed);
    std::string text = "n[1-4,17],m[1-2]x[3-4]";
    for (std::size_t i = random.below(3); i > 0; --i) {
      fuzz::spoil_text(text, random);
    }
    try {
      options.hosts = topologies::host_list(text, "hosts");
      EXPECT_LE(options.hosts.size(), topologies::kHostsMost);
      use(topologies::import_topology(
              "SwitchName=a Nodes=n[1-20]\nSwitchName=b Nodes=m[1-2]x[1-9]\n", "file", options)
              .cluster);
      ++accepted;
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << "seed " << seed;
    }
  }
  EXPECT_GT(accepted, cases / 20);
}

}  // namespace
}  // namespace trireme
