// Machines with one thing wrong each, as their own tools print them: what lint names, and nothing
// else.
#include <gtest/gtest.h>

#include "imported.h"
#include "topologies/import/lspci.h"
#include "topologies/lint.h"
#include "topologies/node_layout.h"

namespace trireme::topologies {
namespace {

struct Named {
  std::string where, detail, fix;
};

// What looks wrong in the machine of a text.
std::vector<Named> named(const std::string& text, const std::string& gpu = "") {
  const Imported imported = import(text, gpu);
  std::vector<Named> all;
  for (const Finding& finding : lint_node(imported.cluster)) {
    if (finding.severity != Finding::Severity::kInfo) {
      all.push_back({finding.where, finding.detail, finding.fix});
    }
  }
  for (const Doubt& doubt : imported.doubts) {
    all.push_back({doubt.where, doubt.detail, doubt.fix});
  }
  return all;
}

void expect_one(const std::vector<Named>& all, const std::string& where, const std::string& words) {
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].where, where);
  EXPECT_NE(all[0].detail.find(words), std::string::npos) << all[0].detail;
  EXPECT_FALSE(all[0].fix.empty());
}

using Cells = std::vector<std::vector<std::string>>;

// Eight GPUs on switches, each with its adapter, four a socket.
Cells sound_cells(std::size_t gpus = 8) {
  Cells cells(2 * gpus, std::vector<std::string>(2 * gpus));
  for (std::size_t a = 0; a < 2 * gpus; ++a) {
    for (std::size_t b = 0; b < 2 * gpus; ++b) {
      const bool same_socket = (a % gpus) * 2 / gpus == (b % gpus) * 2 / gpus;
      cells[a][b] = a == b                 ? "X"
                    : a < gpus && b < gpus ? "NV18"
                    : a % gpus == b % gpus ? "PIX"
                    : same_socket          ? "NODE"
                                           : "SYS";
    }
  }
  return cells;
}

std::string matrix(const Cells& cells, std::size_t gpus, const std::string& numa = "00001111") {
  std::string text;
  const auto name = [gpus](std::size_t i) {
    return i < gpus ? "GPU" + std::to_string(i) : "NIC" + std::to_string(i - gpus);
  };
  for (std::size_t i = 0; i < cells.size(); ++i) {
    text += "\t" + name(i);
  }
  text += "\tCPU Affinity\tNUMA Affinity";
  for (std::size_t a = 0; a < cells.size(); ++a) {
    text += "\n" + name(a);
    for (const std::string& cell : cells[a]) {
      text += "\t" + cell;
    }
    if (a < gpus) {
      text += std::string("\t") + numa[a] + "\t" + numa[a];
    }
  }
  return text + "\n";
}

void set_cell(Cells& cells, std::size_t a, std::size_t b, const std::string& text) {
  cells[a][b] = cells[b][a] = text;
}

void drop(Cells& cells, std::size_t device) {
  cells.erase(cells.begin() + static_cast<std::ptrdiff_t>(device));
  for (std::vector<std::string>& row : cells) {
    row.erase(row.begin() + static_cast<std::ptrdiff_t>(device));
  }
}

TEST(SickMachines, ASoundOneHasNothing) {
  EXPECT_TRUE(named(matrix(sound_cells(), 8)).empty());
}

TEST(SickMachines, AMissingAdapter) {
  Cells cells = sound_cells();
  drop(cells, 8 + 5);
  expect_one(named(matrix(cells, 8)), "GPU5", "nearest adapter is NODE away");
}

TEST(SickMachines, AnAdapterOnTheOtherSocket) {
  Cells cells = sound_cells();
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (i != 8 + 2) {
      set_cell(cells, i, 8 + 2, i % 8 < 4 ? "SYS" : "NODE");
    }
  }
  // NCCL would not use the adapter, so it is left out, and said.
  expect_one(named(matrix(cells, 8)), "GPU2", "nearest adapter is NODE away");
  EXPECT_TRUE(remarks(import(matrix(cells, 8)), "NIC2"));
}

TEST(SickMachines, ANumaNodeThatIsNotTrue) {
  // GPU 5 is on the second socket by its paths, on the first by its NUMA node.
  Cells cells = sound_cells();
  for (std::size_t a = 0; a < 8; ++a) {
    for (std::size_t b = 0; b < 8; ++b) {
      cells[a][b] = a == b ? "X" : (a / 4 == b / 4 ? "NODE" : "SYS");
    }
  }
  const std::vector<Named> all = named(matrix(cells, 8, "00001011"), "L40S");
  const auto doubt = std::ranges::find(all, "GPU5", &Named::where);
  ASSERT_NE(doubt, all.end());
  EXPECT_NE(doubt->detail.find("SYS away from GPU0, yet on the same NUMA node"), std::string::npos);
}

TEST(SickMachines, LinksThatAreDown) {
  Cells cells = sound_cells();
  for (std::size_t gpu = 0; gpu < 8; ++gpu) {
    if (gpu != 3) {
      set_cell(cells, 3, gpu, "NV16");
    }
  }
  expect_one(named(matrix(cells, 8)), "GPU3", "16 links to the switches; others have 18");
  // The GPU that has fewest sets the pace of all.
  EXPECT_DOUBLE_EQ(node_of(matrix(cells, 8)).nvlink_per_gpu.value, 400e9);
}

TEST(SickMachines, PairsWithoutPeerAccess) {
  const std::string paths =
      "\tGPU0\tGPU1\tGPU2\nGPU0\tX\tPIX\tPIX\nGPU1\tPIX\tX\tPIX\nGPU2\tPIX\tPIX\tX\n";
  expect_one(
      named(paths + "\tGPU0\tGPU1\tGPU2\nGPU0\tX\tOK\tCNS\nGPU1\tOK\tX\tOK\nGPU2\tCNS\tOK\tX\n",
            "A40"),
      "peer access", "1 of 3 pairs of GPUs have none");
}

TEST(SickMachines, PairsThatAmdSmiCallsDisabled) {
  const std::string head = "             0000:05:00.0 0000:26:00.0 0000:46:00.0\n";
  const std::string types = "LINK TYPE TABLE:\n" + head +
                            "0000:05:00.0 SELF XGMI XGMI\n0000:26:00.0 XGMI SELF XGMI\n"
                            "0000:46:00.0 XGMI XGMI SELF\n";
  const auto access = [&](const std::string& cell) {
    return "ACCESS TABLE:\n" + head + "0000:05:00.0 ENABLED ENABLED " + cell +
           "\n0000:26:00.0 ENABLED ENABLED ENABLED\n0000:46:00.0 " + cell + " ENABLED ENABLED\n\n" +
           types;
  };
  EXPECT_TRUE(named(access("ENABLED"), "MI300X").empty());
  expect_one(named(access("DISABLED"), "MI300X"), "peer access", "1 of 3 pairs");
}

// A tray of GB200: all adapters are a NUMA node away, and Grace reads GPU memory all the same.
TEST(SickMachines, AdaptersBesideGraceAreNear) {
  Cells cells(4, std::vector<std::string>(4, "NODE"));
  for (std::size_t i = 0; i < 4; ++i) {
    cells[i][i] = "X";
  }
  set_cell(cells, 0, 1, "NV18");
  EXPECT_TRUE(named(matrix(cells, 2, "00"), "GB200").empty());
  const std::vector<Named> intel = named(matrix(cells, 2, "00"), "H100");
  ASSERT_EQ(intel.size(), 2U);
  EXPECT_NE(intel[0].detail.find("does not use GPUDirect RDMA"), std::string::npos);
}

TEST(SickMachines, NcclsOwnWarnings) {
  const std::string head =
      "n1:1:2 [0] NCCL INFO comm 0x1 rank 0 nRanks 8 nNodes 2 localRanks 4 localRank 0 MNNVL 0\n"
      "n1:1:2 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB e:1.2.3.4<0>\n"
      "n1:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC\n";
  const std::string direct =
      "n1:1:2 [0] NCCL INFO Channel 00/0 : 7[3] -> 0[0] [receive] via NET/IB/0/GDRDMA\n";
  const std::string indirect =
      "n1:1:2 [0] NCCL INFO Channel 00/0 : 7[3] -> 0[0] [receive] via NET/IB/0\n";
  EXPECT_TRUE(named(head + direct, "H100").empty());
  expect_one(named(head + indirect, "H100"), "GPUDirect RDMA", "without /GDRDMA");
  expect_one(named(head + direct +
                       "n1:1:2 [0] graph/paths.cc:300 NCCL WARN P2P is disabled between NVLINK "
                       "connected GPUs 1 and 0. This should not be the case\n",
                   "H100"),
             "peer access", "P2P is disabled between NVLINK connected GPUs 1 and 0");
}

// As `lspci -vvv` prints them: a card on x4, an adapter of a generation too low, bridges with ACS.
TEST(SickMachines, LinksAndAccessControlOfLspci) {
  const auto device = [](const std::string& head, const std::string& cap, const std::string& sta) {
    return head + "\n\tControl: I/O- Mem+\n\t\tLnkCap:\tPort #0, " + cap +
           ", ASPM not supported\n\t\tLnkSta:\t" + sta + "\n";
  };
  const std::string bridge = "15:01.0 PCI bridge: Broadcom / LSI PEX890xx (rev b0)\n";
  const std::string acs =
      "\tCapabilities: [170 v1] Access Control Services\n\t\tACSCap:\tSrcValid+\n"
      "\t\tACSCtl:\tSrcValid";
  const std::string card = "17:00.0 3D controller: NVIDIA Corporation Device 2330 (rev a1)";
  const std::string adapter = "18:00.0 Infiniband controller: Mellanox Technologies MT2910";
  const auto all = [&](const std::string& text) {
    EXPECT_TRUE(is_lspci(text));
    std::vector<Named> list;
    for (const Doubt& doubt : lspci_doubts(text)) {
      list.push_back({doubt.where, doubt.detail, doubt.fix});
    }
    return list;
  };
  const std::string wide = "Speed 32GT/s, Width x16";
  const std::string good = device(adapter, wide, "Speed 32GT/s (ok), Width x16 (ok)");
  // A card that idles is slow, and that is sound.
  EXPECT_TRUE(all(device(card, wide, "Speed 2.5GT/s (downgraded), Width x16 (ok)") + good).empty());
  expect_one(all(device(card, wide, "Speed 2.5GT/s (downgraded), Width x4 (downgraded)") + good),
             "17:00.0", "3D controller on x4 of its x16");
  expect_one(all(device(adapter, wide, "Speed 16GT/s (downgraded), Width x16")), "18:00.0",
             "at 16 of its 32 GT/s");
  EXPECT_TRUE(all(good + bridge + acs + "-\n").empty());
  expect_one(all(good + bridge + acs + "+ TransBlk- ReqRedir+\n"), "PCIe ACS",
             "is on for 1 devices (15:01.0)");
  EXPECT_NE(message_of(good).find("topo lint reads"), std::string::npos);
}

#ifdef TRIREME_HAVE_PUGIXML
// NCCL's dump of four A100 on two switches: a GPU on x4, an adapter at half its width.
TEST(SickMachines, NarrowLinksOfADump) {
  const auto dump = [](int gpu_width, int nic_width) {
    const auto pci = [](const std::string& bus, const std::string& kind, int width,
                        const std::string& inside) {
      return "<pci busid=\"0000:" + bus + ":00.0\" class=\"" + kind +
             "\" vendor=\"0x10de\" device=\"0x20b2\" link_speed=\"16.0 GT/s PCIe\" link_width=\"" +
             std::to_string(width) + "\">" + inside + "</pci>";
    };
    const auto gpu = [&](const std::string& bus, int width) {
      return pci(bus, "0x030200", width,
                 "<gpu dev=\"0\" sm=\"80\"><nvlink target=\"0000:c0:00.0\" count=\"12\" "
                 "tclass=\"0x068000\"/></gpu>");
    };
    const auto nic = [&](const std::string& bus, int width) {
      return pci(bus, "0x020700", width,
                 "<nic><net name=\"mlx5_" + bus + "\" speed=\"200000\"/></nic>");
    };
    return "<system version=\"1\"><cpu numaid=\"0\" arch=\"x86_64\" vendor=\"GenuineIntel\">" +
           pci("10", "0x060400", 16, gpu("11", 16) + nic("12", 16)) +
           pci("20", "0x060400", 16, gpu("21", gpu_width) + nic("22", 16)) +
           "</cpu><cpu numaid=\"1\" arch=\"x86_64\" vendor=\"GenuineIntel\">" +
           pci("30", "0x060400", 16, gpu("31", 16) + nic("32", nic_width)) +
           pci("40", "0x060400", 16, gpu("41", 16) + nic("42", 16)) + "</cpu></system>";
  };
  EXPECT_TRUE(named(dump(16, 16)).empty());
  expect_one(named(dump(4, 16)), "GPU1", "PCIe at 7.88 of the 31.5 GB/s");
  expect_one(named(dump(16, 8)), "NIC2", "107 of the adapter's 200 Gbit/s");
}
#endif

TEST(SickMachines, AHostWithoutPeerAccessBesideOthers) {
  const std::string paths = "\tGPU0\tGPU1\nGPU0\tX\tPHB\nGPU1\tPHB\tX\n";
  const auto with = [&](const std::string& cell) {
    return import(paths + "\tGPU0\tGPU1\nGPU0\tX\t" + cell + "\nGPU1\t" + cell + "\tX\n", "A40")
        .cluster;
  };
  const auto unlike = lint_hosts({with("OK"), with("OK"), with("CNS")}, {"a", "b", "c"});
  ASSERT_EQ(unlike.size(), 1U);
  EXPECT_EQ(unlike[0].where, "c");
  EXPECT_NE(unlike[0].detail.find("no peer access"), std::string::npos);
}

}  // namespace
}  // namespace trireme::topologies
