#include "planner/cost/host_machine.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "topologies/gpu_fit.h"
#include "topologies/node_parts.h"

namespace trireme::planner {
namespace {

struct UsualHost {
  std::string_view card;  // its name, or what that of its architecture begins with
  double gib_of_gpu;      // host memory over GPUs of the node
  double rate_of_node;    // bytes a second, all channels
  double nvme_of_node;
  int sockets = 2;
};
// AWS g5.48xlarge (768 GiB beside 8 A10G, 2 EPYC 7R32, 2 drives), g4dn.metal (384 GiB beside 8 T4,
// 2 Xeon 8259CL, 2 drives): Amazon EC2's tables of instance types; GeForce cards sit in
// workstations. DGX-2 (1.5 TB, 2 Xeon 8168), DGX A100 (1 TB beside cards of 40 GB, 2 TB beside
// those of 80; 2 EPYC 7742), DGX H100 (2 TB, 2 Xeon 8480C, 8 drives), DGX B200 (2 TB and more), a
// workstation's two channels: the systems' data sheets and user guides (of DGX A100 320GB:
// DU-09821-001). GB200 and GB300 have Grace's own memory.
constexpr UsualHost kHosts[] = {{"A10-24GB", 96, 410e9, 7e9},
                                {"T4-16GB", 48, 282e9, 7e9},
                                {"RTX-3090-24GB", 64, 90e9, 7e9, 1},
                                {"RTX-3080-10GB", 64, 90e9, 7e9, 1},
                                {"RTX-3060-12GB", 64, 90e9, 7e9, 1},
                                {"A100-SXM4-40GB", 128, 410e9, 25e9},
                                {"Volta", 96, 256e9, 25e9},
                                {"Ampere", 256, 410e9, 25e9},
                                {"Hopper", 256, 614e9, 50e9},
                                {"Blackwell", 256, 717e9, 50e9},
                                {"Ada", 64, 90e9, 7e9, 1}};
constexpr UsualHost kOtherHost = {"", 192, 400e9, 25e9};
// One Grace: STREAM reaches 410 GB/s and up; its link both ways at once 175 and 172 GB/s, one way
// alone 359 and 377 (DGX Station of GB300). A superchip of Blackwell has two GPUs beside it, of
// Hopper one, with up to 480 GB.
constexpr double kGraceGib = 480;
// Boards of four Grace Hoppers (JUPITER, Isambard-AI) have 120 GB of LPDDR5X beside each.
constexpr double kGraceOfFourGib = 120;
constexpr double kGraceRate = 410e9;
constexpr double kGraceLink = 360e9;
constexpr double kGraceBoth = 0.48;
// As many bytes each way at once over PCIe, of the rate of one way alone: A100's copies down stay
// at 24 GB/s, those up fall from 25 to 12.5 (nvbandwidth issues 11 and 53), and then have the rest;
// H200's, of PCIe 5, take 50 GB/s each way for 54.7 of one (our own copies of 256 MiB).
constexpr double kPcieBoth = 0.66;
constexpr double kPcie5Both = 0.91;
constexpr BytesPerSecond kFromPcie5(50e9);  // raw, each way
// Of a socket's channels what copies of all its GPUs move together: two H200 copy one way at 54.6
// GB/s each as alone, both ways at 36.8 (147 of 307 GB/s); of eight A100 both ways at once each
// has 5 to 6 GB/s up (nvbandwidth issue 11).
constexpr double kCopiesShare = 0.48;
// To begin a copy between a GPU and pinned memory, as of a kernel that moves nothing.
constexpr double kCopySeconds = 5e-6;

// GPUs beside each Grace; 0: the host is no Grace.
double gpus_of_grace(const topologies::Cluster& cluster) {
  const std::string_view card = std::string_view(cluster.gpu.name).substr(0, 3);
  if (card == "GH2") {
    return 1;
  }
  return card == "GB2" || card == "GB3" || cluster.node.cpu == "arm" ? 2 : 0;
}

UsualHost usual_host(const topologies::Cluster& cluster) {
  for (const UsualHost& host : kHosts) {
    if (cluster.gpu.name == host.card || cluster.gpu.arch.starts_with(host.card)) {
      return host;
    }
  }
  return kOtherHost;
}

double measured(const topologies::GpuFit& fit, const char* constant, double otherwise) {
  const auto found = fit.constants.find(constant);
  return found == fit.constants.end() ? otherwise : found->second;
}

// Bytes a second between one GPU and its host, whatever the others do.
struct HostLink {
  double one = 0, both = 0;  // each way
};

HostLink link_alone(const topologies::Cluster& cluster, const topologies::GpuFit& fit) {
  const double beside = gpus_of_grace(cluster);
  const BytesPerSecond pcie =
      cluster.node.pcie_per_gpu.value > 0 ? cluster.node.pcie_per_gpu : cluster.gpu.pcie;
  const double shared = beside > 0 ? kGraceBoth : pcie < kFromPcie5 ? kPcieBoth : kPcie5Both;
  const double one = measured(
      fit, "host_rate", beside > 0 ? kGraceLink / beside : topologies::pcie_carries(pcie).value);
  return {one, measured(fit, "host_both_rate", one * shared)};
}

}  // namespace

double ranks_of_node(const topologies::Cluster& cluster) {
  return static_cast<double>(std::min<std::int64_t>(cluster.node.gpus, cluster.gpus));
}

double sockets_of(const topologies::Cluster& cluster) {
  return gpus_of_grace(cluster) > 0 ? 2 : usual_host(cluster).sockets;
}

double ranks_of_socket(const topologies::Cluster& cluster) {
  const auto gpus = static_cast<double>(cluster.node.gpus);
  const double beside = gpus_of_grace(cluster);
  const double sockets = beside > 0 ? gpus / beside : usual_host(cluster).sockets;
  return std::min(ranks_of_node(cluster), std::ceil(gpus / sockets));
}

HostMachine host_of(const Job& job) {
  const Offload& offload = job.offload;
  const topologies::Cluster& cluster = job.cluster;
  const UsualHost usual = usual_host(cluster);
  const auto gpus = static_cast<double>(cluster.node.gpus);
  const double beside = gpus_of_grace(cluster);
  const bool grace = beside > 0;
  const auto given = [](double value, double otherwise) {
    return value > 0 ? value * 1e9 : otherwise;
  };
  HostMachine host;
  const double grace_gib = beside == 1 && gpus > 1 ? kGraceOfFourGib : kGraceGib;
  const double said_gib = to_gib(cluster.node.host_memory);
  const double usual_gib = said_gib > 0 ? said_gib
                           : grace      ? gpus * grace_gib / beside
                                        : gpus * usual.gib_of_gpu;
  host.memory_gib = offload.host_gib > 0 ? offload.host_gib : usual_gib;
  host.memory_rate = given(offload.host_memory_gbytes_per_second,
                           grace ? gpus * kGraceRate / beside : usual.rate_of_node);
  host.nvme_rate = given(offload.nvme_gbytes_per_second, usual.nvme_of_node);
  const topologies::GpuFit fit = topologies::fit_for(cluster.gpu, job.profile);
  const HostLink alone = link_alone(cluster, fit);
  if (offload.link_gbytes_per_second > 0) {  // what each GPU gets
    host.link_rate = offload.link_gbytes_per_second * 1e9;
    host.both_rate = host.link_rate * alone.both / alone.one;
    return host;
  }
  // Grace's own rates are already those of its memory.
  const double usual_copies =
      grace ? HUGE_VAL : kCopiesShare * host.memory_rate / sockets_of(cluster);
  const double most = measured(fit, "host_copies_rate", usual_copies) / ranks_of_socket(cluster);
  host.link_rate = std::min(alone.one, most);
  host.both_rate = std::min(alone.both, most / 2);
  return host;
}

double host_copy_seconds(const HostMachine& host, Bytes bytes, HostWays ways) {
  const double rate = ways == HostWays::kBoth ? host.both_rate : host.link_rate;
  return kCopySeconds + static_cast<double>(bytes.value) / rate;
}

}  // namespace trireme::planner
