// NCCL's topology XML (and RCCL's, with xgmi for nvlink): what NCCL's src/graph/xml.cc reads and
// writes.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <pugixml.hpp>

#include "core/error.h"
#include "topologies/import.h"

namespace trireme::topologies {
namespace {

struct XmlGpu {
  std::string bus;
  int sm = 0;
  std::string gcn;
  int pcie_group = 0;
  int socket = 0;
  std::map<std::string, int> targets;  // links by the bus id they lead to
  int switch_links = 0;
};

struct Reading {
  std::vector<XmlGpu> gpus;
  int nets = 0;
  int nic_functions = 0;  // PCI devices of class NIC, for files that name no nets
  double slowest_net_mbit = 0.0;
  bool links = false;
  std::string cpu;
};

// Speeds in Mbit/s; some files have them in Kbit/s (200000000 for 200 Gbit/s).
double net_mbit(const pugi::xml_node& net) {
  const double speed = net.attribute("speed").as_double(0.0);
  return speed > 4.0e6 ? speed / 1000.0 : speed;
}

std::string cpu_of(const std::string& vendor, const std::string& arch) {
  if (vendor == "AuthenticAMD") {
    return "amd";
  }
  return arch == "arm64" ? "arm" : "intel";
}

void read_net(const pugi::xml_node& holder, Reading& reading) {
  for (const pugi::xml_node& net : holder.children("net")) {
    ++reading.nets;
    const double speed = net_mbit(net);
    if (speed > 0.0) {
      reading.slowest_net_mbit =
          reading.slowest_net_mbit > 0.0 ? std::min(reading.slowest_net_mbit, speed) : speed;
    }
  }
}

void read_links(const pugi::xml_node& node, XmlGpu& gpu, Reading& reading) {
  for (const char* kind : {"nvlink", "xgmi"}) {
    for (const pugi::xml_node& link : node.children(kind)) {
      reading.links = true;
      const int count = std::clamp(link.attribute("count").as_int(1), 0, 1000);
      if (std::string(link.attribute("tclass").as_string()).starts_with("0x0680")) {
        gpu.switch_links += count;
      } else {
        gpu.targets[link.attribute("target").as_string()] += count;
      }
    }
  }
}

struct Place {
  int socket = 0;
  int group = 0;  // of the bridge just above
};

// Depth is bounded by the parser's own; a real tree has at most a dozen levels.
void read_pci(const pugi::xml_node& pci, Place place, int& next_group, Reading& reading,
              int depth) {
  const std::string device_class = pci.attribute("class").as_string();
  const bool gpu_class = device_class.starts_with("0x03") || device_class.starts_with("0x12");
  const bool leaf = !pci.child("pci");
  if (leaf && (gpu_class || pci.child("gpu"))) {
    XmlGpu gpu;
    gpu.bus = pci.attribute("busid").as_string();
    gpu.pcie_group = place.group;
    gpu.socket = place.socket;
    // Several ranks of one GPU are listed apart; they share the device.
    if (const pugi::xml_node node = pci.child("gpu")) {
      gpu.sm = node.attribute("sm").as_int(0);
      gpu.gcn = node.attribute("gcn").as_string();
      read_links(node, gpu, reading);
    }
    reading.gpus.push_back(std::move(gpu));
    return;
  }
  if (leaf && device_class.starts_with("0x02")) {
    ++reading.nic_functions;
  }
  for (const pugi::xml_node& nic : pci.children("nic")) {
    read_net(nic, reading);
  }
  if (depth > 64) {
    return;
  }
  // Devices below one bridge of the second level (behind the root port) share a switch: a root port
  // with a switch has bridges below it, so the outermost bridge names the group.
  const int group = depth == 0 ? next_group++ : place.group;
  for (const pugi::xml_node& child : pci.children("pci")) {
    read_pci(child, {place.socket, group}, next_group, reading, depth + 1);
  }
}

// A card that has the chip; AMD's by gfx number. Empty when no preset has it.
std::string gpu_name(const XmlGpu& gpu) {
  if (!gpu.gcn.empty()) {
    const std::string digits = gpu.gcn.starts_with("gfx") ? gpu.gcn.substr(3) : gpu.gcn;
    return digits == "942" ? "MI300X" : (digits == "950" ? "MI355X" : "");
  }
  switch (gpu.sm) {
    case 70:
      return "V100";
    case 80:
      return "A100";
    case 90:
      return "H100";
    case 100:
      return "B200";
    case 103:
      return "B300";
    default:
      return "";
  }
}

NodeFacts facts_of(const Reading& reading) {
  const std::size_t count = reading.gpus.size();
  NodeFacts facts;
  facts.gpus = static_cast<int>(count);
  facts.links.assign(count, std::vector<int>(count, 0));
  facts.links_told = reading.links;
  for (std::size_t i = 0; i < count; ++i) {
    const XmlGpu& gpu = reading.gpus[i];
    facts.switch_links.push_back(gpu.switch_links);
    facts.pcie_group.push_back(gpu.pcie_group);
    facts.socket.push_back(gpu.socket);
    for (std::size_t j = 0; j < count; ++j) {
      const auto found = gpu.targets.find(reading.gpus[j].bus);
      if (i != j && found != gpu.targets.end()) {
        facts.links[i][j] = facts.links[j][i] = found->second;
      }
    }
  }
  // Some files name a GPU's own bus as the target: links to one peer that they do not tell, so to
  // its neighbour.
  for (std::size_t i = 0; i < count; ++i) {
    const XmlGpu& gpu = reading.gpus[i];
    const auto own = gpu.targets.find(gpu.bus);
    if (gpu.targets.size() == 1 && own != gpu.targets.end() && (i ^ 1U) < count) {
      facts.links[i][i ^ 1U] = facts.links[i ^ 1U][i] = own->second;
    }
  }
  if (count > 0) {
    facts.gpu = gpu_name(reading.gpus.front());
  }
  facts.nics = reading.nets > 0 ? reading.nets : reading.nic_functions;
  facts.nics_told = facts.nics > 0;
  facts.nic = BytesPerSecond(reading.slowest_net_mbit * 1e6 / 8.0);
  facts.cpu = reading.cpu;
  return facts;
}

}  // namespace

NodeFacts read_topology_xml(const std::string& text, const std::string& name) {
  pugi::xml_document document;
  const pugi::xml_parse_result parsed = document.load_buffer(text.data(), text.size());
  if (!parsed) {
    const auto line =
        1 + std::count(text.begin(),
                       text.begin() + std::min<std::ptrdiff_t>(
                                          parsed.offset, static_cast<std::ptrdiff_t>(text.size())),
                       '\n');
    throw Error(name + ":" + std::to_string(line),
                std::string("is not XML: ") + parsed.description());
  }
  const pugi::xml_node system = document.child("system");
  if (!system) {
    throw Error(name,
                document.child("graphs")
                    ? "holds NCCL graphs, not a topology; the dump of NCCL_TOPO_DUMP_FILE is one"
                    : "is XML, but not an NCCL topology: it has no <system>");
  }
  Reading reading;
  int socket = 0;
  int next_group = 0;
  for (const pugi::xml_node& cpu : system.children("cpu")) {
    reading.cpu = cpu_of(cpu.attribute("vendor").as_string(), cpu.attribute("arch").as_string());
    for (const pugi::xml_node& pci : cpu.children("pci")) {
      read_pci(pci, {socket, next_group}, next_group, reading, 0);
    }
    for (const pugi::xml_node& nic : cpu.children("nic")) {
      read_net(nic, reading);
    }
    ++socket;
  }
  if (reading.gpus.empty()) {
    throw Error(name, "shows no GPU");
  }
  return facts_of(reading);
}

}  // namespace trireme::topologies
