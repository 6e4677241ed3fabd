#include <gtest/gtest.h>

#include "imported.h"
#include "topologies/cluster_graph.h"
#include "topologies/nccl_constants.h"
#include "topologies/node_layout.h"
#include "topologies/routes.h"

namespace trireme::topologies {
namespace {

TEST(ImportNetwork, SlurmLeavesOfUnlikeSize) {
  const Imported imported = import("# racks\nSwitchName=l[0-3] Nodes=n[0-17]\n", "H100");
  EXPECT_TRUE(remarks(imported, "several switches"));  // the same nodes four times
  const Imported tree = import(
      "SwitchName=a Nodes=n[01-18]\nSwitchName=b nodes=n[19-36]\nSwitchName=c Nodes=n[37-44]\n"
      "SwitchName=top Switches=a,b,c LinkSpeed=1\n",
      "H100");
  EXPECT_EQ(tree.cluster.nodes, 44);
  EXPECT_EQ(tree.cluster.network.unit_nodes, (std::vector<int>{18, 18, 8}));
  EXPECT_EQ(read_back(tree.cluster).network.unit_nodes, tree.cluster.network.unit_nodes);
  // Nodes 0 and 17 share a leaf; 17 and 18 do not.
  const auto spine = [&](std::int64_t a, std::int64_t b) {
    bool crosses = false;
    for (const Hop& hop : route(tree.cluster, a * 8, b * 8).hops) {
      crosses = crosses || hop.link.find("spine") != std::string::npos;
    }
    return crosses;
  };
  EXPECT_FALSE(spine(0, 17));
  EXPECT_TRUE(spine(17, 18));
  EXPECT_NE(message_of("SwitchName=a Nodes=n[1-", "H100").find("test:1"), std::string::npos);
  EXPECT_NE(
      message_of("SwitchName=a Switches=b\nSwitchName=b Switches=a\n", "H100").find("no switch"),
      std::string::npos);
}

#ifdef TRIREME_HAVE_YAML
// Node= lost the hosts behind it.
TEST(ImportNetwork, KeysThatSlurmDoesNotHaveAreRefused) {
  EXPECT_NE(message_of("SwitchName=a Node=n[1-4]\n", "A100").find("Nodes would be right"),
            std::string::npos);
  EXPECT_NE(message_of("SwitchName=a Nodes=n[1-4] LinkSped=3\n", "A100").find("LinkSpeed"),
            std::string::npos);
  EXPECT_NE(message_of("SwitchName=a Nodes=n[1-4] Color=3\n", "A100").find("one of switchname"),
            std::string::npos);
  EXPECT_EQ(message_of("switchname=a NODES=n[1-4] LinkSpeed=3\n", "A100"), "");
}

TEST(ImportNetwork, RacksWithoutNodesOfATopographModel) {
  const Imported imported = import(
      "switches:\n  core:\n    switches: [r1, r2, r3]\nblocks:\n- switch: r1\n  nodes: "
      "[\"n[1-4]\"]\n"
      "- switch: r3\n  nodes: [\"n[5-6]\"]\n",
      "H100");
  EXPECT_EQ(imported.cluster.nodes, 6);
  EXPECT_EQ(unit_size(imported.cluster.network, 1), 2);
  EXPECT_TRUE(remarks(imported, "switch r2 has no nodes"));
}
#endif

// What a job got of three leaves of 18, 18 and 8 nodes: 2, 3 and 1.
TEST(ImportNetwork, TheHostsOfAJobAreOnTheirLeaves) {
  const std::string text =
      "SwitchName=a Nodes=n[01-18]\nSwitchName=b Nodes=n[19-36]\nSwitchName=c Nodes=n[37-44]\n"
      "SwitchName=top Switches=a,b,c\n";
  ImportOptions options;
  options.gpu = find_gpu("H100", "test");
  options.hosts = host_list("n[19-20,03],n44,n[02,36]", "test");
  const Imported imported = import_topology(text, "test", options);
  EXPECT_EQ(imported.cluster.gpus, 48);
  EXPECT_EQ(imported.cluster.network.unit_nodes, (std::vector<int>{2, 3, 1}));
  EXPECT_TRUE(remarks(imported, "6 hosts below 3 leaves: 2, 3, 1"));
  EXPECT_TRUE(remarks(imported, "change leaf 2 times; in the order that --nodes gives they do 4"));
  // A pipeline of two stages of three nodes crosses, one of the first leaf's two nodes does not.
  EXPECT_EQ(unit_of_node(imported.cluster.network, 1), 0);
  EXPECT_EQ(unit_of_node(imported.cluster.network, 2), 1);
  for (const auto& [hosts, words] : std::vector<std::pair<std::string, std::string>>{
           {"n[1-2]", "host 'n1' is not in test"}, {"n02,n02", "is there twice"}}) {
    options.hosts = host_list(hosts, "test");
    try {
      import_topology(text, "test", options);
      ADD_FAILURE() << hosts;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  }
}

#ifdef TRIREME_HAVE_YAML
TEST(ImportNetwork, OtherPluginsOfSlurmAreNamed) {
  // A default that is flat names no switches; the tree beside it was not read.
  const Imported flat = import(
      "- topology: flat\n  cluster_default: true\n  flat: true\n- topology: rack\n  tree:\n    "
      "switches:\n    - switch: s1\n      nodes: n[1-4]\n    - switch: s2\n      nodes: n[5-8]\n",
      "H100");
  EXPECT_EQ(flat.cluster.nodes, 8);
  EXPECT_TRUE(remarks(flat, "another one is read, rack"));
  EXPECT_NE(message_of("- topology: t\n  torus3d:\n    toruses:\n    - name: pod1\n", "H100")
                .find("topology/torus3d"),
            std::string::npos);
  EXPECT_NE(message_of("- topology: t\n  tree:\n    switches: \"s1=node[1-8]\"\n", "H100")
                .find("should be a list of switches"),
            std::string::npos);
}
#endif

TEST(ImportNetwork, InfinibandRails) {
  // Two hosts with two adapters, each on its own leaf; 2 x 200 down and one 400 up a leaf.
  std::string text;
  for (const std::string leaf : {"1", "2"}) {
    text += "switchguid=0x" + leaf + "(" + leaf + ")\nSwitch 64 \"S-000" + leaf + "\" # \"leaf" +
            leaf + "\" base port 0 lid 1 lmc 0\n";
    for (const std::string host : {"1", "2"}) {
      text += "[" + host + "] \"H-" + host + leaf + "\"[1](a) # \"node-" + host + " mlx5_" + leaf +
              "\" lid 4 4xHDR\n";
    }
    text += "[40] \"S-0009\"[1] # \"spine\" lid 9 2xNDR\n\n";
  }
  const Imported imported = import(text, "A100");
  EXPECT_EQ(imported.cluster.nodes, 2);
  EXPECT_EQ(imported.cluster.node.nics, 2);
  EXPECT_DOUBLE_EQ(imported.cluster.node.nic.value, 25e9);
  EXPECT_EQ(imported.cluster.network.kind, Network::Kind::kRailOptimised);
  EXPECT_DOUBLE_EQ(imported.cluster.network.oversubscription, 2.0);
}

// BlockSizes=18,36: two blocks side by side are a part of the network.
TEST(ImportNetwork, SizesOfBlocksMakeALevel) {
  std::string text;
  for (int block = 0; block < 4; ++block) {
    text += "BlockName=b" + std::to_string(block) + " Nodes=n[" + std::to_string(18 * block + 1) +
            "-" + std::to_string(18 * block + 18) + "]\n";
  }
  EXPECT_TRUE(import(text, "H100").cluster.network.levels.empty());
  const Network network = import(text + "BlockSizes=18,36\n", "H100").cluster.network;
  EXPECT_EQ(network.nodes_per_unit, 18);
  ASSERT_EQ(network.levels.size(), 1U);
  EXPECT_EQ(network.levels[0].nodes, 36);
  EXPECT_NE(message_of(text + "BlockSizes=18,many\n", "H100").find("'many'"), std::string::npos);
}

// A host of an NVL72 is a tray of 4 GPUs, and a block of 18 is one NVLink domain: each host was
// taken for a whole rack.
TEST(ImportNetwork, TraysOfARackAreNoRacks) {
  const std::string two = "BlockName=b1 Nodes=gb-[001-018]\nBlockName=b2 Nodes=gb-[019-036]\n";
  const Imported racks = import(two + "BlockSizes=18\n", "GB200");
  EXPECT_EQ(racks.cluster.nodes, 2);
  EXPECT_EQ(racks.cluster.node.gpus, 72);
  EXPECT_EQ(racks.cluster.gpus, 144);
  EXPECT_TRUE(remarks(racks, "2 NVLink domains of 18 hosts"));
  EXPECT_EQ(read_back(racks.cluster).gpus, 144);
  // Racks of which 16 hosts are in the list, and one of which few are.
  const Imported smaller =
      import("BlockName=a Nodes=n[1-16]\nBlockName=b Nodes=n[17-32]\nBlockName=c Nodes=n[33-34]\n",
             "GB300");
  EXPECT_EQ(smaller.cluster.nodes, 2);
  EXPECT_EQ(smaller.cluster.node.gpus, 64);
  EXPECT_EQ(smaller.cluster.node.nvlink_domain, 64);
  EXPECT_TRUE(remarks(smaller, "2 hosts are not counted"));
  // A leaf of a tree with more hosts than a rack.
  const Imported tree = import("SwitchName=l Nodes=n[1-36]\n", "GB200");
  EXPECT_EQ(tree.cluster.gpus, 144);
  EXPECT_EQ(tree.cluster.network.nodes_per_unit, 2);
  // Other hosts are what they were.
  EXPECT_EQ(import(two, "H100").cluster.gpus, 36 * 8);
}

// gcm#167: a spine of `scontrol show topo` names again what its leaves hold.
TEST(ImportNetwork, NodesThatASpineRepeatsStayOnTheirLeaves) {
  const Imported imported = import(
      "SwitchName=spine Level=1 LinkSpeed=1 Nodes=g-[1-3],h-[1-4] Switches=sw[0-1]\n"
      "SwitchName=sw0 Level=0 LinkSpeed=1 Nodes=g-[1-3]\n"
      "SwitchName=sw1 Level=0 LinkSpeed=1 Nodes=h-[1-4]\n",
      "H100");
  EXPECT_EQ(imported.cluster.network.unit_nodes, (std::vector<int>{3, 4}));
  EXPECT_FALSE(remarks(imported, "several switches"));
  // Blocks as it prints them were refused for their index.
  const Imported blocks =
      import("BlockName=b0 BlockIndex=0 Nodes=n[0-17]\nBlockName=b1 BlockIndex=1 Nodes=n[18-35]\n",
             "GB200");
  EXPECT_EQ(blocks.cluster.gpus, 144);
}

TEST(ImportNetwork, SwitchesOfThreeLevelsMakePods) {
  // Two pods of two leaves of two nodes.
  const std::string text =
      "SwitchName=core Switches=s[1-2]\nSwitchName=s1 Switches=l[1-2]\nSwitchName=s2 "
      "Switches=l[3-4]\n"
      "SwitchName=l1 Nodes=n[1-2]\nSwitchName=l2 Nodes=n[3-4]\nSwitchName=l3 Nodes=n[5-6]\n"
      "SwitchName=l4 Nodes=n[7-8]\n";
  const Network network = import(text, "H100").cluster.network;
  EXPECT_EQ(network.nodes_per_unit, 2);
  ASSERT_EQ(network.levels.size(), 1U);
  EXPECT_EQ(network.levels[0].nodes, 4);
  // Unlike parts are carried.
  const Imported unlike = import(
      "SwitchName=core Switches=s[1-3]\nSwitchName=s1 Switches=l1\nSwitchName=s2 Switches=l[2-3]\n"
      "SwitchName=s3 Switches=l4\nSwitchName=l1 Nodes=n[1-2]\nSwitchName=l2 Nodes=n[3-4]\n"
      "SwitchName=l3 Nodes=n[5-6]\nSwitchName=l4 Nodes=n[7-8]\n",
      "H100");
  ASSERT_EQ(unlike.cluster.network.levels.size(), 1U);
  EXPECT_EQ(unlike.cluster.network.levels[0].part_nodes, (std::vector<int>{2, 4, 2}));
  EXPECT_FALSE(remarks(unlike, "unlike numbers"));
}

// `ibnetdiscover --ports`: a line a port, some from both ends. Leaves 1 and 2 below spine 5, 3 and
// 4 below spine 6, both below core 7.
TEST(ImportNetwork, PortsOfAFabricOfThreeLevels) {
  std::string text;
  const auto link = [&text](const std::string& from, int port, const std::string& to, int other,
                            const std::string& names) {
    text += from.substr(0, 2) + "   1 " + std::to_string(port) + " " + from.substr(2) +
            " 4x HDR - " + to.substr(0, 2) + "  2 " + std::to_string(other) + " " + to.substr(2) +
            " ( " + names + " )\n";
  };
  for (int leaf = 1; leaf <= 4; ++leaf) {
    const std::string own = "SW0x" + std::to_string(leaf);
    const std::string name = "'leaf" + std::to_string(leaf) + "'";
    for (int host = 1; host <= 2; ++host) {
      const std::string number = std::to_string(10 * leaf + host);
      link("CA0xa" + number, 1, own, host, "'n" + number + " mlx5_0' - " + name);
      link(own, host, "CA0xa" + number, 1, name + " - 'n" + number + " mlx5_0'");
    }
    link(own, 9, leaf <= 2 ? "SW0x5" : "SW0x6", leaf, name + " - 'spine'");
  }
  link("SW0x5", 9, "SW0x7", 1, "'spine' - 'core'");
  link("SW0x6", 9, "SW0x7", 2, "'spine' - 'core'");
  text += "SW   1 30 0x7 4x ???                                    'core'\n";
  const Imported imported = import(text, "A100");
  EXPECT_EQ(imported.cluster.nodes, 8);
  EXPECT_EQ(imported.cluster.node.nics, 1);
  EXPECT_DOUBLE_EQ(imported.cluster.node.nic.value, 25e9);
  EXPECT_EQ(imported.cluster.network.nodes_per_unit, 2);
  EXPECT_DOUBLE_EQ(imported.cluster.network.oversubscription, 2.0);
  ASSERT_EQ(imported.cluster.network.levels.size(), 1U);
  EXPECT_EQ(imported.cluster.network.levels[0].nodes, 4);
}

TEST(ImportNcclLog, PathsRanksAndAdapters) {
  const std::string log =
      "n1:1:2 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE [RO]; OOB "
      "eth0:1.2.3.4<0>\n"
      "n1:1:2 [0] NCCL INFO === System : maxBw 24.0 totalBw 24.0 ===\n"
      "n1:1:2 [0] NCCL INFO GPU/1A000 :GPU/0-1a000 (0/5000.0/LOC) GPU/0-1b000 (2/24.0/PIX) "
      "GPU/0-ca000 (4/10.0/SYS) NET/0-0 (2/24.0/PIX) NET/0-1 (5/10.0/SYS)\n"
      "n1:1:2 [0] NCCL INFO GPU/1B000 :GPU/0-1a000 (2/24.0/PIX) GPU/0-1b000 (0/5000.0/LOC) "
      "GPU/0-ca000 (4/10.0/SYS) NET/0-0 (2/24.0/PIX) NET/0-1 (5/10.0/SYS)\n"
      "n1:1:2 [0] NCCL INFO GPU/CA000 :GPU/0-1a000 (4/10.0/SYS) GPU/0-1b000 (4/10.0/SYS) "
      "GPU/0-ca000 (0/5000.0/LOC) NET/0-0 (5/10.0/SYS) NET/0-1 (2/24.0/PIX)\n"
      "n1:1:2 [0] NCCL INFO comm 0x1 rank 0 nRanks 6 nNodes 2 localRanks 3 localRank 0 MNNVL 0\n"
      "n1:1:2 [0] NCCL INFO Channel 00/04 :    0   1   2\n";
  const Imported imported = import(log, "L40S");
  EXPECT_EQ(imported.cluster.gpus, 6);
  EXPECT_EQ(imported.cluster.node.nics, 2);
  const NodeLayout layout = layout_of(imported.cluster.node);
  EXPECT_EQ(path_between(layout.gpus[0], layout.gpus[1]), Path::kSwitch);
  EXPECT_EQ(path_between(layout.gpus[2], layout.nics[1]), Path::kSwitch);
  EXPECT_TRUE(remarks(imported, "4 channels"));
}

// What a log says beside its graph decides as much: the network, variables, how channels go.
TEST(ImportNcclLog, TheNetworkThatItNames) {
  const std::string comm =
      "n1:1:2 [0] NCCL INFO comm 0x1 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0\n";
  const auto of = [&comm](const std::string& line) {
    return import(comm + "n1:1:2 [0] NCCL INFO " + line + "\n", "H100").cluster;
  };
  EXPECT_EQ(of("NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE [RO]; OOB e:1<0>").network.name,
            "RoCE 400G");
  EXPECT_EQ(of("NET/IB : Using [0]mlx5_0:1/IB ; OOB e:1<0>").network.name, "NDR InfiniBand");
  const Cluster sockets = of("NET/Socket : Using [0]ens5:172.31.1.2<0> [1]ens6:172.31.1.3<0>");
  EXPECT_EQ(sockets.network.name, "Ethernet TCP");
  EXPECT_EQ(sockets.node.nics, 2);
  const Cluster efa = of("NET/OFI Selected provider is efa, fabric is efa (found 32 nics)");
  EXPECT_TRUE(efa.network.name.starts_with("EFA")) << efa.network.name;
  EXPECT_EQ(efa.node.nics, 32);
}

// NCCL 2.27 and newer print the adapters' rates, and racks whose hosts NVLink joins.
TEST(ImportNcclLog, RatesOfAdaptersAndCliques) {
  const std::string head =
      "n1:1:2 [0] NCCL INFO NET/IB : Made virtual device [0] name=mlx5_0 speed=200000 ndevs=1\n"
      "n1:1:2 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB/SHARP [RO]; OOB e:1.2.3.4<0>\n";
  const std::string comm =
      "n1:1:2 [0] NCCL INFO comm 0x1 rank 0 nRanks 64 nNodes 16 localRanks 4 "
      "localRank 0 MNNVL 1\n";
  const Cluster trays = import(head + comm, "H100").cluster;
  EXPECT_DOUBLE_EQ(trays.node.nic.value, 25e9);
  EXPECT_EQ(trays.network.name, "HDR InfiniBand");
  EXPECT_EQ(trays.nodes, 16);
  const auto clique = [&](int size) {
    return head + "n1:1:2 [0] NCCL INFO MNNVL 1 cliqueId 7ffe cliqueSize " + std::to_string(size) +
           " cliqueRank 0 \n" + comm;
  };
  const Cluster rack = import(clique(32), "GB200").cluster;
  EXPECT_EQ(rack.node.gpus, 32);
  EXPECT_EQ(rack.node.nvlink_domain, 32);
  EXPECT_EQ(rack.nodes, 2);
  EXPECT_NE(message_of(clique(72), "GB200").find("gb200-nvl72 is such a rack"), std::string::npos);
}

TEST(ImportNcclLog, VariablesAndRanksThatPrint) {
  std::string log =
      "n1:1:2 [0] NCCL INFO NCCL_ALGO set by environment to Ring.\n"
      "n1:1:2 [0] NCCL INFO NCCL_IB_HCA set to mlx5\n";
  for (const char* rank : {"0", "1", "2", "3"}) {
    log += std::string("n1:1:9 [") + rank + "] NCCL INFO comm 0x1 rank " + rank +
           " nranks 4 cudaDev 0 busId 1000 - Init START\nn1:1:9 [" + rank +
           "] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct/direct\n";
  }
  const Cluster cluster = import(log, "A40").cluster;
  EXPECT_EQ(cluster.nodes, 1);
  EXPECT_EQ(cluster.node.gpus, 4);
  EXPECT_FALSE(cluster.node.peer_to_peer);
  EXPECT_EQ(cluster.nccl.algorithms, 1U << index_of(NcclAlgorithm::kRing));
  EXPECT_EQ(read_back(cluster).nccl.algorithms, cluster.nccl.algorithms);
}

// Logs are often cut before their path lines; the tree tells the same. Ranks print theirs in turns.
TEST(ImportNcclLog, TheTreeOfTheMachine) {
  const std::string log =
      "#  Rank  0 Group  0 Pid   9822 on n1 device  0 [0000:18:00] NVIDIA H200\n"
      "n1:1:2 [0] NCCL INFO === System : maxBw 48.0 totalBw 370.8 ===\n"
      "n1:1:3 [1] NCCL INFO === System : maxBw 48.0 totalBw 370.8 ===\n"
      "n1:1:2 [0] NCCL INFO CPU/0-0 (1/2/-1)\n"
      "n1:1:3 [1] NCCL INFO CPU/0-0 (1/2/-1)\n"
      "n1:1:2 [0] NCCL INFO + SYS[16.0] - CPU/0-1\n"
      "n1:1:2 [0] NCCL INFO + PCI[48.0] - PCI/0-16000 (1000c03015d91d25)\n"
      "n1:1:2 [0] NCCL INFO              + PCI[48.0] - GPU/0-18000 (0)\n"
      "n1:1:2 [0] NCCL INFO                            + NVL[370.8] - NVS/0-0\n"
      "n1:1:2 [0] NCCL INFO              + PCI[48.0] - NIC/0-19000\n"
      "n1:1:3 [1] NCCL INFO + PCI[48.0] - PCI/0-16000 (1000c03015d91d25)\n"
      "n1:1:2 [0] NCCL INFO                            + NET[48.0] - NET/0-0 (0/a8/1/50.000000)\n"
      "n1:1:2 [0] NCCL INFO + PCI[48.0] - GPU/0-2a000 (1)\n"
      "n1:1:2 [0] NCCL INFO              + NVL[370.8] - NVS/0-0\n"
      "n1:1:2 [0] NCCL INFO CPU/0-1 (1/2/-1)\n"
      "n1:1:2 [0] NCCL INFO + PCI[48.0] - GPU/0-9a000 (2)\n"
      "n1:1:2 [0] NCCL INFO              + NVL[370.8] - NVS/0-0\n"
      "n1:1:2 [0] NCCL INFO ==========================================\n";
  const Imported imported = import(log);
  const Node& node = imported.cluster.node;
  EXPECT_EQ(imported.cluster.gpu.name, find_gpu("H200", "test").name);
  EXPECT_EQ(node.gpus, 3);
  EXPECT_EQ(node.fabric, Node::Fabric::kNvSwitch);
  EXPECT_EQ(node.nics, 1);
  EXPECT_DOUBLE_EQ(node.nic.value, 50e9);  // its own speed, not what PCIe leaves of it
  const NodeLayout layout = layout_of(node);
  EXPECT_EQ(path_between(layout.gpus[0], layout.nics[0]), Path::kSwitch);
  EXPECT_EQ(path_between(layout.gpus[0], layout.gpus[1]), Path::kBridge);
  EXPECT_EQ(path_between(layout.gpus[0], layout.gpus[2]), Path::kSystem);
}

TEST(ImportNcclLog, TheTreeOfTwoHives) {
  const std::string who = "job-0:26:76 [0] NCCL INFO ";
  std::string log = who + "=== System : maxWidth 12.5 totalWidth 72.0 ===\n";
  for (const int cpu : {0, 1}) {
    const std::string first = cpu == 0 ? "47000" : "c7000";
    const std::string second = cpu == 0 ? "4C000" : "CC000";
    log += who + "CPU/" + std::to_string(cpu) + " (1/2/4)\n";
    log += who + "+ SYS[5000.0] - CPU/" + std::to_string(1 - cpu) + "\n";
    log += who + "+ PCI[24.0] - PCI/3" + std::to_string(cpu) + "000 (1000c01010000000)\n";
    log += who + "              + PCI[24.0] - GPU/" + first + " (0)\n";
    log += who + "                            + XGMI[24.0] - GPU/" + second + "\n";
    log += who + "              + PCI[24.0] - GPU/" + second + " (1)\n";
    log += who + "                            + XGMI[24.0] - GPU/" + first + "\n";
  }
  const Imported imported = import(log, "MI100");
  EXPECT_EQ(imported.cluster.node.gpus, 4);
  EXPECT_EQ(imported.cluster.node.nvlink_domain, 2);
  const NodeLayout layout = layout_of(imported.cluster.node);
  EXPECT_GT(layout.links[0][1], 0);
  EXPECT_EQ(layout.links[0][2], 0);
  EXPECT_EQ(path_between(layout.gpus[0], layout.gpus[2]), Path::kSystem);
}

// nccl#1189: an adapter of half the rate at the CPU was one of the fabric, and what the path lines
// of one GPU leave out stood nowhere, though the tree says it.
TEST(ImportNcclLog, TheTreeFillsWhatPathLinesLeaveOut) {
  const std::string who = "h:1:2 [0] NCCL INFO ";
  std::string log = who + "=== System : maxBw 50.0 totalBw 400.0 ===\n" + who + "CPU/0 (1/1/2)\n";
  for (const int half : {0, 1}) {
    const std::string at = std::to_string(half + 1);
    log += who + "+ PCI[48.0] - PCI/" + at + "7000 (1000c030)\n";
    log += who + "              + PCI[48.0] - GPU/" + at + "8000 (" + std::to_string(half) + ")\n";
    log += who + "              + PCI[48.0] - NIC/" + at + "9000\n";
    log += who + "                            + NET[50.0] - NET/" + at + " (a/1/50.000000)\n";
  }
  log += who + "+ PCI[48.0] - NIC/36000\n";
  log += who + "              + NET[25.0] - NET/8 (b/1/25.000000)\n";
  log += who + "==========================================\n";
  log += who +
         "GPU/18000 :GPU/18000 (0/5000.0/LOC) NET/1 (3/48.0/PIX) NET/2 (5/48.0/PHB) CPU/0 "
         "(2/48.0/PHB)\n";
  const Imported imported = import(log, "H20");
  EXPECT_EQ(imported.cluster.node.gpus, 2);
  EXPECT_EQ(imported.cluster.node.nics, 2);
  EXPECT_DOUBLE_EQ(imported.cluster.node.nic.value, 50e9);
  EXPECT_TRUE(remarks(imported, "slower than the fabric's are left out: NET/8"));
  const NodeLayout layout = layout_of(imported.cluster.node);
  EXPECT_EQ(path_between(layout.gpus[1], layout.nics[1]), Path::kSwitch);
  EXPECT_EQ(path_between(layout.gpus[0], layout.gpus[1]), Path::kBridge);
}

// Newer versions hang GPUs and their links on devices; GPUs two links apart are not joined. Two
// cards of four share a switch each.
TEST(ImportNcclLog, GpusOnDevicesInARing) {
  const std::string who = "h:1:2 [0] NCCL INFO ";
  const std::vector<std::string> bus = {"b000", "e000", "1e000", "1b000"};
  std::string tree = who + "=== System : maxBw 24.0 totalBw 48.0 ===\n" + who + "CPU/0-0 (1/1/2)\n";
  std::string paths = who + "=== System : maxBw 24.0 totalBw 48.0 ===\n";
  for (std::size_t i = 0; i < 4; ++i) {
    const std::string& next = bus[(i + 1) % 4];
    const std::string& last = bus[(i + 3) % 4];
    tree += who + "+ PCI[12.0] - PCI/0-" + std::to_string(i / 2) + "7000 (10b5)\n";
    tree += who + "       + PCI[12.0] - DEV/0-" + bus[i] + " (1002)\n";
    tree += who + "              + LOC[5000.0] - GPU/0-" + bus[i] + "\n";
    tree += who + "              + XGMI[24.0] - DEV/0-" + next + "\n";
    tree += who + "              + XGMI[24.0] - DEV/0-" + last + "\n";
    paths += who + "GPU/0-" + bus[i] + " :";
    for (const std::string& other : bus) {
      paths += "GPU/0-" + other +
               (other == bus[i]
                    ? " (0/5000.0/LOC) "
                    : (other == next || other == last ? " (3/24.0/XGMI) " : " (4/24.0/XGMI) "));
    }
    paths += "DEV/0-" + next + " (2/24.0/XGMI)\n";
  }
  for (const std::string& log : {tree, paths}) {
    const Node node = node_of(log, "MI100");
    EXPECT_EQ(node.gpus, 4);
    const LinkCounts links = layout_of(node).links;
    ASSERT_EQ(links.size(), 4U);
    EXPECT_EQ(ring_count(links, {0, 1, 2, 3}) > 0, true);
    int joined_pairs = 0;
    for (std::size_t a = 0; a < 4; ++a) {
      for (std::size_t b = a + 1; b < 4; ++b) {
        joined_pairs += links[a][b] > 0 ? 1 : 0;
      }
    }
    EXPECT_EQ(joined_pairs, 4);
  }
  EXPECT_DOUBLE_EQ(node_of(tree, "MI100").pcie_per_gpu.value, 15.75e9);  // generation 3
}

TEST(ImportNcclLog, AnUnknownCardOfTheBannerIsNamed) {
  EXPECT_TRUE(
      remarks(import("#  Rank  0 Pid 1 on n1 device  0 [0x01] Some Card 9\n"
                     "n1:1:2 [0] NCCL INFO comm 0x1 rank 0 nRanks 2 nNodes 1 localRanks 2\n",
                     "H100"),
              "Some Card 9"));
}

}  // namespace
}  // namespace trireme::topologies
