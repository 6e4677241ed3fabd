#include "topologies/import.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/error.h"
#include "topologies/routes.h"

namespace trireme::topologies {
namespace {

Node node_of(const std::string& text, const std::string& gpu = "") {
  return import_topology(text, "test", {.gpu = gpu, .network = "", .nodes = 1, .nic = {}})
      .cluster.node;
}

std::string message_of(const std::string& text, const std::string& gpu = "") {
  try {
    node_of(text, gpu);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

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
  EXPECT_NE(message_of(mesh).find("--gpu"), std::string::npos);  // four links do not tell which GPU
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

TEST(ImportMatrix, WrongTextIsNamed) {
  EXPECT_NE(message_of("").find("empty"), std::string::npos);
  EXPECT_NE(message_of("hello world").find("neither"), std::string::npos);
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
  const Imported imported =
      import_topology(kXml, "test.xml", {.gpu = "", .network = "", .nodes = 4, .nic = {}});
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
    if (!name.ends_with(".xml") && !name.starts_with("smi_") && !name.starts_with("rocm_smi")) {
      continue;
    }
    std::ostringstream text;
    text << std::ifstream(entry.path()).rdbuf();
#ifndef TRIREME_HAVE_PUGIXML
    if (name.ends_with(".xml")) {
      continue;
    }
#endif
    const std::string gpu = name.starts_with("amd") || name.starts_with("rocm") ? "MI300X" : "A100";
    const Cluster cluster =
        import_topology(text.str(), name, {.gpu = gpu, .network = "", .nodes = 1, .nic = {}})
            .cluster;
    for (std::int64_t to = 1; to < cluster.gpus; ++to) {
      EXPECT_GT(route(cluster, 0, to).bottleneck.value, 0.0) << name;
    }
    ++read;
  }
  EXPECT_GT(read, 10);
}

}  // namespace
}  // namespace trireme::topologies
