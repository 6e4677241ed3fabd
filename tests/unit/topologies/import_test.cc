#include "imported.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "topologies/nccl_graph.h"
#include "topologies/node_layout.h"
#include "topologies/routes.h"

namespace trireme::topologies {
namespace {

TEST(ImportMatrix, SwitchedNode) {
  // Three GPUs with 18 links each to all: more than a GPU has, so they lead to a switch.
  const Node node = node_of(
      "\tGPU0\tGPU1\tGPU2\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
      "GPU0\t X \tNV18\tNV18\tPIX\tSYS\t0-23\t0\tN/A\nGPU1\tNV18\t X "
      "\tNV18\tSYS\tPIX\t0-23\t0\tN/A\n"
      "GPU2\tNV18\tNV18\t X \tSYS\tPIX\t24-47\t1\tN/A\nNIC0\tPIX\tSYS\tSYS\t X \tSYS\n");
  EXPECT_EQ(node.fabric, Node::Fabric::kNvSwitch);
  EXPECT_EQ(node.nvlink_domain, 3);
  EXPECT_EQ(node.nvlink_links, 18);
  EXPECT_EQ(node.nics, 2);
}

TEST(ImportMatrix, MeshAndPairs) {
  // Four GPUs, four links a pair: 12 of an A100's 12, a mesh.
  const std::string mesh =
      "     GPU0 GPU1 GPU2 GPU3\nGPU0 X NV4 NV4 NV4\nGPU1 NV4 X NV4 NV4\nGPU2 NV4 NV4 X NV4\nGPU3 "
      "NV4 NV4 NV4 X\n";
  EXPECT_EQ(import(mesh).cluster.gpu.name, "A100-SXM4-80GB");
  const Node node = node_of(mesh, "A100");
  EXPECT_EQ(node.fabric, Node::Fabric::kMesh);
  EXPECT_EQ(node.nvlink_links, 12);
  EXPECT_DOUBLE_EQ(node.nvlink_per_gpu.value, 300e9);
  const Node pairs = node_of(
      "     GPU0 GPU1 GPU2 GPU3 CPU Affinity\nGPU0 X NV4 SYS SYS 0-3,9\nGPU1 NV4 X SYS SYS "
      "0-3,9\nGPU2 SYS SYS X NV4 4\n"
      "GPU3 SYS SYS NV4 X 4\n",
      "A40");
  EXPECT_EQ(pairs.fabric, Node::Fabric::kPairs);
  EXPECT_EQ(pairs.nvlink_domain, 2);
}

// Boards of four without switches were V100s on switches (six links a pair are 18 of an H100), and
// the rest of their node was that of a board of eight.
TEST(ImportMatrix, ABoardOfFourIsAMeshOfItsLinks) {
  const auto matrix = [](const std::string& cell) {
    std::string text = "     GPU0 GPU1 GPU2 GPU3\n";
    for (int row = 0; row < 4; ++row) {
      text += "GPU" + std::to_string(row);
      for (int column = 0; column < 4; ++column) {
        text += row == column ? " X" : " " + cell;
      }
      text += "\n";
    }
    return text;
  };
  const Imported h100 = import(matrix("NV6"));
  EXPECT_EQ(h100.cluster.gpu.name, "H100-SXM5-80GB");
  EXPECT_EQ(h100.cluster.node.fabric, Node::Fabric::kMesh);
  EXPECT_EQ(h100.cluster.node.nvlink_links, 18);
  EXPECT_DOUBLE_EQ(h100.cluster.node.nvlink_per_gpu.value, 450e9);
  EXPECT_TRUE(remarks(h100, "hgx-h100-4"));
  const Imported h200 = import(matrix("NV6"), "H200");
  EXPECT_EQ(h200.cluster.node.fabric, Node::Fabric::kMesh);
  EXPECT_TRUE(remarks(h200, "hgx-h200-4"));
  EXPECT_TRUE(remarks(import(matrix("NV4"), "A100-SXM4-80GB"), "hgx-a100-4"));
  // half of a board with switches
  const Imported half = import(matrix("NV18"));
  EXPECT_EQ(half.cluster.node.fabric, Node::Fabric::kNvSwitch);
  EXPECT_TRUE(remarks(half, "dgx-h100"));
}

// A report of eight B300 was imported as H100, whose NVLink counts as many links.
TEST(ImportMatrix, TheCardIsTheOneThatStandsBesideIt) {
  const std::string matrix = "     GPU0 GPU1\nGPU0 X NV18\nGPU1 NV18 X\n";
  const std::pair<const char*, const char*> kBeside[] = {
      {"GPU 0,1: NVIDIA B300 SXM6 AC\n", "B300-SXM-288GB"},
      {"GPU 0: NVIDIA H200 (UUID: GPU-ad536355)\n", "H200-SXM-141GB"},
      {"|   0  NVIDIA H100 NVL        On  |   00000000:9D:00.0 Off |     0 |\n", "H100-NVL-94GB"},
      {"0, NVIDIA A100-PCIE-40GB, 535.129.03\n", "A100-PCIe-40GB"},
      {"NVIDIA-SMI 535.129.03\nGPU 0: NVIDIA GH200 480GB (UUID: GPU-1)\n", "GH200-96GB"},
      {"GPU 0: Tesla V100-SXM2-32GB (UUID: GPU-1)\n", "V100-SXM2-32GB"}};
  for (const auto& [text, card] : kBeside) {
    const Imported imported = import(text + matrix);
    EXPECT_EQ(imported.cluster.gpu.name, card) << text;
    EXPECT_EQ(import(matrix + text).cluster.gpu.name, card) << text;
  }
  // What is cut short or no card says nothing: the links do.
  for (const char* text : {"|   0  NVIDIA H100 80G...  On  |\n", "NVIDIA Topology:\n", ""}) {
    EXPECT_EQ(import(text + matrix).cluster.gpu.name, "H100-SXM5-80GB") << text;
  }
  EXPECT_NE(message_of("GPU 0: NVIDIA TITAN V (UUID: GPU-1)\n" + matrix)
                .find("holds NVIDIA TITAN V, of which there is no preset"),
            std::string::npos);
}

// `topo -mp` of eight H200 became a node without NVLink in silence.
TEST(ImportMatrix, HiddenLinksOfABoardWithSwitchesAreDoubted) {
  const std::string paths = "     GPU0 GPU1\nGPU0 X NODE\nGPU1 NODE X\n";
  const Imported hidden = import(paths, "H200");
  ASSERT_EQ(hidden.doubts.size(), 1U);
  EXPECT_EQ(hidden.doubts.front().where, "NVLink");
  EXPECT_TRUE(import(paths, "A100-PCIe").doubts.empty());
  EXPECT_TRUE(import("     GPU0 GPU1\nGPU0 X NV18\nGPU1 NV18 X\n", "H200").doubts.empty());
}

TEST(ImportMatrix, PcieOnly) {
  const Node node = node_of(
      "     GPU0 GPU1 GPU2 GPU3 mlx5_0\nGPU0 X PIX SYS SYS PHB\nGPU1 PIX X SYS SYS PHB\nGPU2 SYS "
      "SYS X PIX SYS\n"
      "GPU3 SYS SYS PIX X SYS\n",
      "L40S");
  EXPECT_EQ(node.fabric, Node::Fabric::kPcie);
  EXPECT_EQ(node.gpus_per_pcie_switch, 2);
  EXPECT_EQ(node.sockets, 2);
  EXPECT_EQ(node.nics, 1);
}

TEST(ImportMatrix, CutOffRowsFollowThePattern) {
  // Only the first row is there: each distance from the diagonal repeats.
  const Node node = node_of("     GPU0 GPU1 GPU2 GPU3\nGPU0 X NV12 NV12 NV12\n# cut off\n");
  EXPECT_EQ(node.fabric, Node::Fabric::kNvSwitch);
  EXPECT_EQ(node.nvlink_domain, 4);
}

TEST(ImportMatrix, OneGpuAloneOnItsSocket) {
  // GPU0 on one socket, GPU1 and GPU2 on the other: not made even.
  const Imported imported =
      import("     GPU0 GPU1 GPU2\nGPU0 X SYS SYS\nGPU1 SYS X NODE\nGPU2 SYS NODE X\n", "L40");
  ASSERT_NE(imported.cluster.node.layout, nullptr);
  const auto& gpus = imported.cluster.node.layout->gpus;
  EXPECT_NE(gpus[0].socket, gpus[1].socket);
  EXPECT_EQ(gpus[1].socket, gpus[2].socket);
  EXPECT_NE(route(imported.cluster, 0, 1).latency, route(imported.cluster, 1, 2).latency);
}

TEST(ImportMatrix, BridgesStayWhereTheFileHasThem) {
  const Imported imported = import(
      "     GPU0 GPU1 GPU2 GPU3\nGPU0 X PHB SYS NV4\nGPU1 PHB X NV4 SYS\nGPU2 SYS NV4 X PHB\n"
      "GPU3 NV4 SYS PHB X\n",
      "A40");
  const Cluster back = read_back(imported.cluster);
  for (const Cluster& cluster : {imported.cluster, back}) {
    EXPECT_EQ(route(cluster, 0, 3).hops.size(), 1U);
    EXPECT_EQ(route(cluster, 1, 2).hops.size(), 1U);
    EXPECT_GT(route(cluster, 0, 1).hops.size(), 1U);
    EXPECT_EQ(intra_path(cluster, 2, 3), IntraPath::kNvlink);  // GPU0 and GPU3
    EXPECT_NE(intra_path(cluster, 2, 1), IntraPath::kNvlink);
  }
}

TEST(ImportMatrix, AdaptersHangWhereTheirCellsSay) {
  const Imported imported = import(
      "     GPU0 GPU1 GPU2 GPU3 NIC0 NIC1\nGPU0 X NV4 NV4 NV4 SYS SYS\nGPU1 NV4 X NV4 NV4 PIX SYS\n"
      "GPU2 NV4 NV4 X NV4 SYS PIX\nGPU3 NV4 NV4 NV4 X SYS SYS\nNIC0 SYS PIX SYS SYS X SYS\n"
      "NIC1 SYS SYS PIX SYS SYS X\n",
      "A100", 2);
  const auto& layout = imported.cluster.node.layout;
  ASSERT_NE(layout, nullptr);
  EXPECT_EQ(path_between(layout->gpus[1], layout->nics[0]), Path::kSwitch);
  EXPECT_EQ(path_between(layout->gpus[2], layout->nics[1]), Path::kSwitch);
  EXPECT_EQ(path_between(layout->gpus[0], layout->nics[0]), Path::kSystem);
  // GPU1 of one node to GPU1 of the next leaves by NIC0 and crosses no CPU.
  for (const Hop& hop : route(imported.cluster, 1, 5).hops) {
    EXPECT_EQ(hop.link.find("CPU"), std::string::npos) << hop.link;
  }
}

TEST(ImportMatrix, ManagementAdaptersAreLeftOutWithARemark) {
  const std::string nics = " NIC0 NIC1 NIC2 NIC3";
  const Imported imported =
      import("     GPU0 GPU1" + nics +
                 " CPU Affinity\nGPU0 X NV12 PXB SYS SYS SYS 0-3\n"
                 "GPU1 NV12 X SYS PXB SYS SYS 4-7\nNIC Legend:\n\n  NIC0: mlx5_0\n  NIC1: mlx5_1\n"
                 "  NIC2: mlx5_9\n  NIC3: eno1\n",
             "A100", 2);
  EXPECT_EQ(imported.cluster.node.nics, 2);
  EXPECT_TRUE(remarks(imported, "mlx5_9, eno1"));
  // A node whose only adapters are far keeps them.
  EXPECT_EQ(node_of("     GPU0 GPU1 mlx5_0\nGPU0 X PIX SYS\nGPU1 PIX X SYS\n", "L40S").nics, 1);
}

// sglang#11208, a tray of GB200: the two ports of a BlueField beside four ConnectX-7, all of them
// SYS to every GPU, were adapters of the fabric on sockets of their own.
TEST(ImportMatrix, PortsOfACardBesideSingleAdaptersAreLeftOut) {
  std::string text =
      "\tGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tNIC1\tNIC2\tNIC3\tNIC4\tNIC5\tCPU Affinity\tNUMA "
      "Affinity\n";
  for (int row = 0; row < 10; ++row) {
    text += (row < 4 ? "GPU" : "NIC") + std::to_string(row < 4 ? row : row - 4);
    for (int column = 0; column < 10; ++column) {
      const bool ports = (row == 6 && column == 7) || (row == 7 && column == 6);
      text += row == column ? "\tX" : row < 4 && column < 4 ? "\tNV18" : ports ? "\tPIX" : "\tSYS";
    }
    text += row < 2 ? "\t0-71\t0,3-9\n" : row < 4 ? "\t72-143\t1,18-33\n" : "\n";
  }
  const Imported tray = import(text, "GB200");
  EXPECT_EQ(tray.cluster.node.gpus, 4);
  EXPECT_EQ(tray.cluster.node.nics, 4);
  EXPECT_EQ(tray.cluster.node.sockets, 2);
  EXPECT_TRUE(remarks(tray, "ports of one card or of another kind: NIC2, NIC3"));
}

// Without a card's name a tray of Grace was four H100 beside an Intel CPU: each GPU's memory is a
// NUMA node of its own there.
TEST(ImportMatrix, GraceIsToldByItsMemory) {
  const auto matrix = [](const std::string& affinity) {
    return "\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
           "GPU0\t X \tNV18\tNV18\tNV18\t0-" +
           affinity +
           "2\n"
           "GPU1\tNV18\t X \tNV18\tNV18\t0-" +
           affinity +
           "10\n"
           "GPU2\tNV18\tNV18\t X \tNV18\t0-" +
           affinity +
           "18\n"
           "GPU3\tNV18\tNV18\tNV18\t X \t0-" +
           affinity + "26\n";
  };
  const Imported tray = import(matrix("63\t0,3-9,11-17\t\t"));
  EXPECT_EQ(tray.cluster.gpu.name, "GB200-186GB");
  EXPECT_EQ(tray.cluster.node.cpu, "arm");
  EXPECT_TRUE(remarks(tray, "the usual one of its kind"));
  EXPECT_EQ(import(matrix("71\t0\t\tN/A ")).cluster.gpu.name, "GB200-186GB");
  EXPECT_EQ(import(matrix("55\t0\t\tN/A ")).cluster.gpu.name, "H100-SXM5-80GB");
  EXPECT_EQ(import("\tGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU0\t X \t0-71\t0\t\t1\n")
                .cluster.gpu.name,
            "GH200-96GB");
}

TEST(ImportMatrix, TerminalsAndEditorsAddCharacters) {
  const Node node = node_of(
      "\xef\xbb\xbf\t\033[4mGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\033[0m\r\n"
      "GPU0\t X \tNV18\t0-55\t0\t\tN/A\r\nGPU1\tNV18\t X \t56-111\t1\t\tN/A\r\n");
  EXPECT_EQ(node.gpus, 2);
  EXPECT_EQ(node.nvlink_links, 18);
  EXPECT_EQ(node.sockets, 2);
  EXPECT_EQ(
      node_of("pod-0: \tGPU0\tGPU1\npod-0: GPU0\t X \tSOC\npod-0: GPU1\tSOC\t X \n", "L4").sockets,
      2);
}

TEST(ImportMatrix, WhatIsWrittenReadsTheSame) {
  // Devices on two levels of switches; the exported matrix imports as itself.
  const std::string text =
      "     GPU0 GPU1 GPU2 GPU3 NIC0\nGPU0 X PXB NODE SYS PIX\nGPU1 PXB X NODE SYS PXB\n"
      "GPU2 NODE NODE X SYS NODE\nGPU3 SYS SYS SYS X SYS\nNIC0 PIX PXB NODE SYS X\n";
  const Imported first = import(text, "L40S");
  const std::string written = matrix_text(first.cluster.node);
  EXPECT_EQ(matrix_text(read_back(first.cluster).node), written);
  EXPECT_EQ(matrix_text(import(written, "L40S").cluster.node), written);
  std::istringstream told(text);
  std::istringstream found(written);
  std::string a;
  std::string b;
  while (told >> a) {
    ASSERT_TRUE(found >> b);
    EXPECT_EQ(a, b);
  }
}

TEST(ImportMatrix, ContradictionsAreNamed) {
  EXPECT_TRUE(remarks(
      import("     GPU0 GPU1 GPU2\nGPU0 X PIX SYS\nGPU1 PIX X PIX\nGPU2 SYS PIX X\n", "L40S"),
      "GPU0 to GPU2 is SYS"));
}

// Rows that contradict each other, stand twice or end in a word that is no path were read in
// silence.
TEST(ImportMatrix, RowsThatCannotBeRightAreNamed) {
  const Imported two = import("  GPU0 GPU1\nGPU0 X NV12\nGPU1 SYS X\n", "A100");
  ASSERT_EQ(two.doubts.size(), 1U);
  EXPECT_EQ(two.doubts[0].where, "GPU0 to GPU1");
  const Imported adapter =
      import("  GPU0 GPU1 NIC0\nGPU0 X NV12 PIX\nGPU1 NV12 X SYS\nNIC0 SYS SYS X\n", "A100");
  ASSERT_EQ(adapter.doubts.size(), 1U);
  EXPECT_EQ(adapter.doubts[0].where, "GPU0 to NIC0");
  EXPECT_TRUE(remarks(import("  GPU0 GPU1 GPU2\nGPU0 X NV12 NV12\nGPU1 NV12 X NV12\n", "A100"),
                      "the row of GPU2 is not there"));
  const std::pair<const char*, const char*> wrong[] = {
      {"  GPU0 GPU1\nGPU0 X NV12\nGPU0 NV12 X\n", "row 'GPU0' stands twice"},
      {"  GPU0 GPU1\nGPU0 NV4 NV12\nGPU1 NV12 X\n", "NV4 in its own column"},
      {"  GPU0 GPU1\nGPU0 X PXXB\nGPU1 PXXB X\n", "no path"},
      {"  GPU0 GPU1 NIC0 CPU Affinity\nGPU0 X NV12 PIIX 0-63\nGPU1 NV12 X SYS 0-63\n",
       "'PIIX' below NIC0"}};
  for (const auto& [text, says] : wrong) {
    EXPECT_NE(message_of(text, "A100").find(says), std::string::npos)
        << text << message_of(text, "A100");
  }
  EXPECT_NE(message_of("17:00.0 3D controller: NVIDIA Corporation GA100\n").find("lspci -vvv"),
            std::string::npos);
}

TEST(ImportMatrix, CardsWithoutAPresetOrLinksCanBeReadBack) {
  const Imported old = import("     GPU0 GPU1\nGPU0 X PHB\nGPU1 PHB X\n", "V100-SXM2-16GB");
  EXPECT_NEAR(old.cluster.node.pcie_per_gpu.value, 15.75e9, 1.0);
  const Imported linked = import("     GPU0 GPU1\nGPU0 X NV4\nGPU1 NV4 X\n", "RTX-4090");
  EXPECT_TRUE(remarks(linked, "link rate"));
  EXPECT_EQ(read_back(linked.cluster).node.nvlink_links, 4);
}

TEST(ImportRocm, TypesHopsAndNumaNodes) {
  const Imported imported = import(
      "====== Hops between two GPUs ======\n       GPU0  GPU1  GPU2\nGPU0   0     1     2\n"
      "GPU1   1     0     1\nGPU2   2     1     0\n====== Link Type between two GPUs ======\n"
      "       GPU0  GPU1  GPU2\nGPU0   0  XGMI  XGMI\nGPU1   XGMI  0  XGMI\nGPU2   XGMI  XGMI  0\n"
      "====== Numa Nodes ======\nGPU[0]          : (Topology) Numa Node: 0\n"
      "GPU[0]          : (Topology) Numa Affinity: 0\nGPU[1]          : (Topology) Numa Node: 0\n"
      "GPU[2]          : (Topology) Numa Node: 1\n",
      "MI300X");
  const Node& node = imported.cluster.node;
  EXPECT_EQ(node.sockets, 2);
  ASSERT_NE(node.layout, nullptr);
  EXPECT_EQ(node.layout->links, (LinkCounts{{0, 1, 0}, {1, 0, 1}, {0, 1, 0}}));
  EXPECT_EQ(node.layout->gpus[0].socket, node.layout->gpus[1].socket);
}

// Both of AMD's tools print one hop for all GPUs of a hive; the weight tells which have a link of
// their own.
TEST(ImportRocm, WeightsTellWhichGpusAreJoined) {
  const Node node = node_of(
      "== Weight between two GPUs ==\n     GPU0 GPU1 GPU2\nGPU0 0 15 30\nGPU1 15 0 15\n"
      "GPU2 30 15 0\n== Hops between two GPUs ==\n     GPU0 GPU1 GPU2\nGPU0 0 1 1\n"
      "GPU1 1 0 1\nGPU2 1 1 0\n== Link Type between two GPUs ==\n     GPU0 GPU1 GPU2\n"
      "GPU0 0 XGMI XGMI\nGPU1 XGMI 0 XGMI\nGPU2 XGMI XGMI 0\n",
      "MI250X");
  ASSERT_NE(node.layout, nullptr);
  EXPECT_EQ(node.layout->links, (LinkCounts{{0, 1, 0}, {1, 0, 1}, {0, 1, 0}}));
}

TEST(ImportRocm, AmdSmiNamesGpusByTheirBus) {
  const Node node = node_of(
      "ACCESS TABLE:\n             0000:c1:00.0 0000:c6:00.0\n0000:c1:00.0 ENABLED      ENABLED\n"
      "0000:c6:00.0 ENABLED      ENABLED\n\nWEIGHT TABLE:\n"
      "             0000:c1:00.0 0000:c6:00.0\n0000:c1:00.0 0            15\n"
      "0000:c6:00.0 15           0\n\nLINK TYPE TABLE:\n"
      "             0000:c1:00.0 0000:c6:00.0\n0000:c1:00.0 SELF         XGMI\n"
      "0000:c6:00.0 XGMI         SELF\n\nNUMA BW TABLE:\n"
      "             0000:c1:00.0 0000:c6:00.0\n0000:c1:00.0 N/A          50000-50000\n"
      "0000:c6:00.0 50000-50000  N/A\n",
      "MI300X");
  EXPECT_EQ(node.gpus, 2);
  EXPECT_EQ(node.nvlink_domain, 2);
}

TEST(ImportMatrix, ThePeerMatrixBesideItCounts) {
  const std::string paths =
      "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tPHB\t0-63\nGPU1\tPHB\t X \t0-63\n";
  const std::string none = " \tGPU0\tGPU1\t\n GPU0\tX\tGNS\t\n GPU1\tGNS\tX\t\n";
  const std::string all = " \tGPU0\tGPU1\t\n GPU0\tX\tOK\t\n GPU1\tOK\tX\t\n";
  EXPECT_FALSE(node_of(paths + none, "A100-PCIe").peer_to_peer);
  EXPECT_TRUE(node_of(paths + all, "RTX-4090").peer_to_peer);
  EXPECT_FALSE(node_of(none + paths, "A100-PCIe").peer_to_peer);
  EXPECT_FALSE(remarks(import(paths + none, "A100-PCIe"), "matrices"));
}

TEST(ImportMatrix, PeerAccessIsTheCardsNotItsNeighbours) {
  const std::string paths =
      "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNODE\t0-63\nGPU1\tNODE\t X \t0-63\n";
  for (const char* geforce : {"RTX 3090", "RTX 4090", "RTX 5090"}) {
    EXPECT_FALSE(node_of(paths, geforce).peer_to_peer) << geforce;
  }
  // The usual node of an L40S is one host whose GPUs could not reach each other; others are not it.
  for (const char* card : {"L40S", "L4", "T4", "RTX PRO 6000"}) {
    EXPECT_TRUE(node_of(paths, card).peer_to_peer) << card;
  }
}

TEST(ImportMatrix, PagesLoseBlanksBetweenCells) {
  const NodeLayout layout = layout_of(
      node_of("     GPU0 GPU1 NIC0 NIC1\nGPU0 X NV12 PIXNODE\nGPU1 NV12 X NODEPIX\n", "A100"));
  EXPECT_EQ(path_between(layout.gpus[0], layout.nics[0]), Path::kSwitch);
  EXPECT_EQ(path_between(layout.gpus[1], layout.nics[1]), Path::kSwitch);
  EXPECT_EQ(path_between(layout.gpus[0], layout.nics[1]), Path::kNode);
}

TEST(ImportMatrix, AdaptersMayHangOnASocketWithoutGpus) {
  EXPECT_EQ(node_of("     GPU0 NIC0\nGPU0 X SYS\nNIC0 SYS X\n", "GH200").sockets, 2);
}

TEST(ImportMatrix, WrongTextIsNamed) {
  EXPECT_NE(message_of("").find("empty"), std::string::npos);
  EXPECT_NE(message_of("hello world").find("no topology"), std::string::npos);
  EXPECT_NE(message_of("     GPU0 GPU1\nGPU0 X\nGPU1 NV12 X\n").find("GPU0"), std::string::npos);
  EXPECT_NE(message_of("     GPU0 GPU1\nGPU7 X NV12\n").find("GPU7"), std::string::npos);
  EXPECT_NE(message_of("     GPU0 GPU1\nGPU0 X what\n").find("path"), std::string::npos);
}

#ifdef TRIREME_HAVE_PUGIXML
constexpr const char* kXml = R"(<system version="1">
  <cpu numaid="0" arch="x86_64" vendor="AuthenticAMD">
    <pci busid="0000:01:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">
      <pci busid="0000:02:00.0" class="0x030200"><gpu dev="0" sm="90" rank="0">
        <nvlink target="0000:f0:00.0" count="9" tclass="0x068000"/>
        <nvlink target="0000:f1:00.0" count="9" tclass="0x068000"/></gpu></pci>
      <pci busid="0000:03:00.0" class="0x020700"><nic><net name="a" speed="200000000" port="1"/></nic></pci>
    </pci>
  </cpu>
  <cpu numaid="1" arch="x86_64" vendor="AuthenticAMD">
    <pci busid="0000:11:00.0" class="0x060400">
      <pci busid="0000:12:00.0" class="0x030200"><gpu dev="1" sm="90" rank="1">
        <nvlink target="0000:f0:00.0" count="9" tclass="0x068000"/>
        <nvlink target="0000:f1:00.0" count="9" tclass="0x068000"/></gpu></pci>
      <pci busid="0000:13:00.0" class="0x020700"><nic><net name="b" speed="200000" port="1"/></nic></pci>
    </pci>
  </cpu>
</system>)";

TEST(ImportXml, SwitchedNode) {
  const Imported imported = import(kXml, "", 4);
  const Node& node = imported.cluster.node;
  EXPECT_EQ(imported.cluster.gpu.name, "H100-SXM5-80GB");
  EXPECT_EQ(imported.cluster.gpus, 8);
  EXPECT_EQ(node.fabric, Node::Fabric::kNvSwitch);
  EXPECT_EQ(node.nvlink_links, 18);
  EXPECT_EQ(node.sockets, 2);
  EXPECT_EQ(node.gpus_per_pcie_switch, 1);
  EXPECT_EQ(node.cpu, "amd");
  // 200000000 is in Kbit/s where the format says Mbit/s.
  EXPECT_EQ(node.nics, 2);
  EXPECT_DOUBLE_EQ(node.nic.value, 25e9);
}

// It was said that the file does not tell the card, where it tells one that no preset is.
TEST(ImportXml, ACardWithoutAPresetIsNamed) {
  const auto of = [](const std::string& device, const std::string& gpu) {
    return "<system version=\"1\"><cpu numaid=\"0\" arch=\"x86_64\" vendor=\"AuthenticAMD\">"
           "<pci busid=\"0000:01:00.0\" class=\"0x030200\" " +
           device + "><gpu dev=\"0\" " + gpu + " rank=\"0\"/></pci></cpu></system>";
  };
  EXPECT_NE(message_of(of("", "gcn=\"906\"")).find("cards of gfx906, of which there is no preset"),
            std::string::npos);
  EXPECT_NE(message_of(of("vendor=\"0x10de\" device=\"0x15f9\"", "sm=\"60\""))
                .find("compute capability 60"),
            std::string::npos);
  EXPECT_EQ(node_of(of("", "gcn=\"906\""), "MI100").gpus, 1);
}

TEST(ImportXml, SlowAdaptersAreLeftOut) {
  const Imported imported = import(
      "<system version=\"1\"><cpu numaid=\"0\"><pci busid=\"1\" class=\"0x030200\" "
      "device=\"0x2330\">"
      "<gpu dev=\"0\" sm=\"90\" rank=\"0\"/></pci>"
      "<nic><net name=\"mlx5_0\" speed=\"200000\"/><net name=\"mlx5_1\" speed=\"200000\"/>"
      "<net name=\"eth0\" speed=\"1000\"/></nic></cpu></system>");
  EXPECT_EQ(imported.cluster.node.nics, 2);
  EXPECT_DOUBLE_EQ(imported.cluster.node.nic.value, 25e9);
  EXPECT_TRUE(remarks(imported, "eth0 of 1000 Mbit/s"));
}

TEST(ImportXml, CardsOfADumpWithoutLinksAreOnPcie) {
  // Two A100 PCIe, one a socket, at half width: the device id says which card, and no link is
  // there.
  std::string text = "<system version=\"1\">";
  for (const std::string i : {"0", "1"}) {
    text += "<cpu numaid=\"" + i + "\" arch=\"x86_64\" vendor=\"GenuineIntel\"><pci busid=\"000" +
            i + ":1\" class=\"0x060400\"><pci busid=\"000" + i +
            ":2\" class=\"0x030200\" vendor=\"0x10de\" device=\"0x20b5\" "
            "link_speed=\"16.0 GT/s PCIe\" link_width=\"8\"><gpu dev=\"" +
            i + "\" sm=\"80\" rank=\"" + i + "\"/></pci></pci></cpu>";
  }
  const Imported imported = import(text + "</system>");
  EXPECT_EQ(imported.cluster.gpu.name, "A100-PCIe-80GB");
  EXPECT_EQ(imported.cluster.node.fabric, Node::Fabric::kPcie);
  EXPECT_EQ(imported.cluster.node.sockets, 2);
  EXPECT_NEAR(imported.cluster.node.pcie_per_gpu.value, 15.75e9, 1.0);
  EXPECT_TRUE(remarks(imported, "narrower"));
}

TEST(ImportLstopo, PackagesBridgesAndDevices) {
  const auto device = [](const std::string& bus, const std::string& type,
                         const std::string& inside) {
    return "<object type=\"PCIDev\" pci_busid=\"" + bus + "\" pci_type=\"" + type + "\" " +
           "pci_link_speed=\"31.5\">" + inside + "</object>";
  };
  const std::string gpu = "0302 [10de:26b9] [10de:1851] a1";
  const std::string nic = "0207 [15b3:101b] [15b3:0007] 00";
  const std::string verbs = "<object type=\"OSDev\" name=\"mlx5_0\" osdev_type=\"3\"/>";
  const std::string text =
      "<?xml version=\"1.0\"?><!DOCTYPE topology SYSTEM \"hwloc2.dtd\"><topology version=\"2.0\">"
      "<object type=\"Machine\"><object type=\"Package\"><object type=\"Bridge\" "
      "bridge_type=\"0-1\">"
      "<object type=\"Bridge\" bridge_type=\"1-1\">" +
      device("0000:01:00.0", gpu, "") + device("0000:02:00.0", nic, verbs) +
      "</object></object></object><object type=\"Package\"><object type=\"Bridge\" "
      "bridge_type=\"0-1\">" +
      device("0000:81:00.0", gpu, "") + device("0000:90:00.0", "0300 [1a03:2000]", "") +
      "</object></object></object></topology>";
  const Imported imported = import(text);
  EXPECT_EQ(imported.cluster.gpu.name, "L40S-48GB");
  EXPECT_EQ(imported.cluster.node.gpus, 2);
  EXPECT_EQ(imported.cluster.node.nics, 1);
  const NodeLayout layout = layout_of(imported.cluster.node);
  EXPECT_NE(layout.gpus[0].socket, layout.gpus[1].socket);
  EXPECT_EQ(path_between(layout.gpus[0], layout.nics[0]), Path::kSwitch);
}

TEST(ImportXml, WrongTextIsNamed) {
  EXPECT_NE(message_of("<system version=\"1\">\n<cpu").find("test:2"), std::string::npos);
  EXPECT_NE(message_of("<other/>").find("<system>"), std::string::npos);
  EXPECT_NE(message_of("<system/>").find("no GPU"), std::string::npos);
  EXPECT_NE(message_of("<graphs version=\"1\"/>").find("graphs"), std::string::npos);
}
#endif

// Real files, where they are: each is read, connects all its GPUs, or says in one line what is
// missing.
TEST(Import, RealFiles) {
  const char* given = std::getenv("TRIREME_SHARED_DATA");
  const std::string folder =
      (given != nullptr ? std::string(given) : std::string(TRIREME_SOURCE_DIR "/../shared/data")) +
      "/topologies";
  if (!std::filesystem::is_directory(folder)) {
    GTEST_SKIP() << folder << " is not here";
  }
  int read = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name == "README.md") {
      continue;
    }
    std::ostringstream text;
    text << std::ifstream(entry.path()).rdbuf();
#ifndef TRIREME_HAVE_PUGIXML
    if (name.ends_with(".xml")) {
      continue;
    }
#endif
#ifndef TRIREME_HAVE_YAML
    if (name.ends_with(".yaml")) {
      continue;
    }
#endif
    const std::string gpu = name.starts_with("amd") || name.starts_with("rocm") ? "MI300X" : "A100";
    const Cluster cluster = import(text.str(), gpu).cluster;
    EXPECT_EQ(cluster_to_json(read_back(cluster)), cluster_to_json(cluster)) << name;
    for (std::int64_t to = 1; to < std::min<std::int64_t>(cluster.gpus, 64); ++to) {
      EXPECT_GT(route(cluster, 0, to).bottleneck.value, 0.0) << name;
    }
    ++read;
  }
  EXPECT_GT(read, 10);
}

}  // namespace
}  // namespace trireme::topologies
