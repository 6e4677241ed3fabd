// NCCL's topology XML (and RCCL's, with xgmi for nvlink): `NCCL_TOPO_DUMP_FILE`, or a provider's
// `NCCL_TOPO_FILE`. Facts on the format: facts on communication, section 4.1.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <pugixml.hpp>

#include "core/error.h"
#include "topologies/import/facts.h"
#include "topologies/import/read_lstopo.h"
#include "topologies/topology_file.h"

namespace trireme::topologies {
namespace {

struct XmlGpu {
  std::string bus, device, card, gcn;
  int sm = 0;
  Place place;
  std::map<std::string, int> targets;  // links by the bus id they lead to
  int switch_links = 0;
};
struct XmlNet {
  std::string name;
  double mbit = 0.0;  // 0: not told
  Place place;
};

struct Reading {
  std::vector<XmlGpu> gpus;
  std::vector<XmlNet> nets;
  std::vector<XmlNet> nic_functions;  // PCI devices of class NIC, for files that name no nets
  bool links = false;
  std::string cpu;
  int labels = 0;  // of places handed out
  std::vector<std::string> remarks;
};

// Speeds in Mbit/s; some files have them in Kbit/s (200000000 for 200 Gbit/s).
double net_mbit(const pugi::xml_node& net) {
  const double speed = net.attribute("speed").as_double(0.0);
  return speed > 4.0e6 ? speed / 1000.0 : std::max(speed, 0.0);
}

std::string cpu_of(const std::string& vendor, const std::string& arch) {
  if (vendor == "AuthenticAMD") {
    return "amd";
  }
  return arch == "arm64" || arch == "aarch64" ? "arm" : "intel";
}

void read_nets(const pugi::xml_node& holder, const Place& place, Reading& reading) {
  for (const pugi::xml_node& net : holder.children("net")) {
    reading.nets.push_back({net.attribute("name").as_string(), net_mbit(net), place});
  }
}

// "16.0 GT/s PCIe" and a width, as the rate one way; 0 where they are missing or are what virtual
// machines claim for every bridge (2.5 GT/s).
BytesPerSecond pcie_rate_of(const pugi::xml_node& pci) {
  const double gt = std::strtod(pci.attribute("link_speed").as_string(), nullptr);
  const int width = pci.attribute("link_width").as_int(0);
  if (gt < 5.0 || width < 1 || width > 32) {
    return {};
  }
  const int generation = gt < 8.0 ? 2 : gt < 16.0 ? 3 : gt < 32.0 ? 4 : gt < 64.0 ? 5 : 6;
  return pcie_rate(generation, std::min(width, 16));
}

void read_links(const pugi::xml_node& node, XmlGpu& gpu, Reading& reading) {
  for (const char* kind : {"nvlink", "xgmi"}) {
    for (const pugi::xml_node& link : node.children(kind)) {
      reading.links = true;
      const int count = std::clamp(link.attribute("count").as_int(1), 0, 1000);
      if (std::string(link.attribute("tclass").as_string()).starts_with("0x0680")) {
        gpu.switch_links = std::min(gpu.switch_links + count, 1000);
      } else {
        int& links = gpu.targets[link.attribute("target").as_string()];
        links = std::min(links + count, 1000);
      }
    }
  }
}

bool is_device(const pugi::xml_node& pci) {
  const std::string kind = pci.attribute("class").as_string();
  return !pci.child("pci") && (kind.starts_with("0x03") || kind.starts_with("0x12") ||
                               kind.starts_with("0x02") || pci.child("gpu") || pci.child("nic"));
}

int device_count(const pugi::xml_node& pci, int depth) {
  int count = is_device(pci) ? 1 : 0;
  for (const pugi::xml_node& child : pci.children("pci")) {
    count += depth < 64 ? device_count(child, depth + 1) : 0;
  }
  return count;
}

void read_xml_gpu(const pugi::xml_node& pci, const Place& place, Reading& reading) {
  XmlGpu gpu;
  gpu.bus = pci.attribute("busid").as_string();
  const std::string device = pci.attribute("device").as_string();
  const std::string vendor = pci.attribute("vendor").as_string();
  gpu.device = device.empty() ? "" : "PCI device " + (vendor.empty() ? "" : vendor + ":") + device;
  for (const std::string& maker : {vendor, std::string("0x10de"), std::string("0x1002")}) {
    gpu.card = gpu.card.empty() && (vendor.empty() || maker == vendor)
                   ? card_of_pci_id(maker, device)
                   : gpu.card;
  }
  gpu.place = place;
  gpu.place.rate = pcie_rate_of(pci);
  // Several ranks of one GPU are listed apart; they share the device.
  if (const pugi::xml_node node = pci.child("gpu")) {
    gpu.sm = node.attribute("sm").as_int(0);
    gpu.gcn = node.attribute("gcn").as_string();
    read_links(node, gpu, reading);
  }
  reading.gpus.push_back(std::move(gpu));
}

// `place` is of the bridge above: its leaf is -1 below a bridge of one device, which is a port.
// Depth is bounded by the parser's own; a real tree has at most a dozen levels.
void read_pci(const pugi::xml_node& pci, Place place, Reading& reading, int depth) {
  const std::string device_class = pci.attribute("class").as_string();
  if (depth == 0) {
    place.tree = place.bridge = reading.labels++;
  }
  if (is_device(pci)) {
    place.leaf = place.leaf < 0 ? reading.labels++ : place.leaf;
    if (device_class.starts_with("0x03") || device_class.starts_with("0x12") || pci.child("gpu")) {
      read_xml_gpu(pci, place, reading);
      return;
    }
    // An adapter's own link counts where it is narrower than its line.
    const BytesPerSecond link = pcie_rate_of(pci);
    double line = 0.0;
    for (const pugi::xml_node& nic : pci.children("nic")) {
      for (const pugi::xml_node& net : nic.children("net")) {
        line = std::max(line, net_mbit(net) * 1e6 / 8.0);
      }
    }
    place.rate = link.value < line ? link : BytesPerSecond{};
    if (!pci.child("nic")) {
      reading.nic_functions.push_back({pci.attribute("busid").as_string(), 0.0, place});
    }
    for (const pugi::xml_node& nic : pci.children("nic")) {
      read_nets(nic, place, reading);
    }
    return;
  }
  if (depth > 64) {
    return;
  }
  if (device_count(pci, depth) > 1) {
    place.leaf = reading.labels++;
  }
  for (const pugi::xml_node& child : pci.children("pci")) {
    read_pci(child, place, reading, depth + 1);
  }
}

// The usual card with such a chip; AMD's by gfx number. Empty when no preset has it.
std::string usual_card(const XmlGpu& gpu) {
  constexpr std::pair<const char*, const char*> kByGcn[] = {
      {"942", "MI300X"}, {"950", "MI355X"}, {"908", "MI100"}, {"910", "MI250X"}, {"90a", "MI250X"}};
  constexpr std::pair<int, const char*> kBySm[] = {
      {70, "V100"},       {75, "T4"},    {80, "A100"},  {89, "L40S"},
      {90, "H100"},       {100, "B200"}, {103, "B300"}, {120, "RTX-PRO-6000-BSE-96GB"},
      {121, "GB10-128GB"}};
  if (!gpu.gcn.empty()) {
    const std::string digits = gpu.gcn.starts_with("gfx") ? gpu.gcn.substr(3) : gpu.gcn;
    for (const auto& [number, name] : kByGcn) {
      if (digits == number) {
        return name;
      }
    }
    return "";
  }
  for (const auto& [sm, name] : kBySm) {
    if (gpu.sm == sm) {
      return name;
    }
  }
  return "";
}

// What the file says of a card that no preset is.
std::string chip_of(const XmlGpu& gpu) {
  const std::string digits = gpu.gcn.starts_with("gfx") ? gpu.gcn.substr(3) : gpu.gcn;
  if (!digits.empty()) {
    return "cards of gfx" + digits;
  }
  return gpu.sm > 0 ? "cards of compute capability " + std::to_string(gpu.sm) : gpu.device;
}

void set_links(const Reading& reading, NodeFacts& facts) {
  const std::size_t count = reading.gpus.size();
  facts.links.assign(count, std::vector<int>(count, 0));
  for (std::size_t i = 0; i < count; ++i) {
    const XmlGpu& gpu = reading.gpus[i];
    facts.switch_links.push_back(gpu.switch_links);
    for (std::size_t j = 0; j < count; ++j) {
      const auto found = gpu.targets.find(reading.gpus[j].bus);
      if (i != j && found != gpu.targets.end()) {
        facts.links[i][j] = facts.links[j][i] = found->second;
      }
    }
  }
  // Some files name a GPU's own bus as the target: links to one peer that they do not tell, so to
  // its neighbour.
  bool own_targets = false;
  for (std::size_t i = 0; i < count; ++i) {
    const XmlGpu& gpu = reading.gpus[i];
    const auto own = gpu.targets.find(gpu.bus);
    if (gpu.targets.size() == 1 && own != gpu.targets.end() && (i ^ 1U) < count) {
      facts.links[i][i ^ 1U] = facts.links[i ^ 1U][i] = own->second;
      own_targets = true;
    }
  }
  if (own_targets) {
    facts.remarks.push_back("links that name their own GPU as the target lead to its neighbour");
  }
}

// Adapters much slower than the fastest are for management; NCCL's search leaves them out.
void set_nets(const Reading& reading, NodeFacts& facts) {
  const std::vector<XmlNet>& all = reading.nets.empty() ? reading.nic_functions : reading.nets;
  double fastest = 0.0;
  for (const XmlNet& net : all) {
    fastest = std::max(fastest, net.mbit);
  }
  std::string left_out;
  double slowest = 0.0;
  for (const XmlNet& net : all) {
    if (net.mbit > 0.0 && net.mbit < 0.6 * fastest) {
      left_out += (left_out.empty() ? "" : ", ") +
                  (net.name.empty() ? std::string("one") : net.name) + " of " +
                  std::to_string(static_cast<int>(net.mbit)) + " Mbit/s";
      continue;
    }
    slowest = net.mbit > 0.0 && (slowest <= 0.0 || net.mbit < slowest) ? net.mbit : slowest;
    facts.nics.push_back({net.name, BytesPerSecond(net.mbit * 1e6 / 8.0)});
    facts.nic_places.push_back(net.place);
  }
  for (NicFacts& nic : facts.nics) {
    nic.rate = BytesPerSecond(slowest * 1e6 / 8.0);
  }
  if (!left_out.empty()) {
    facts.remarks.push_back("adapters that are slower than the fabric's are left out: " + left_out);
  }
  facts.nics_told = !facts.nics.empty();
}

NodeFacts facts_of(const Reading& reading) {
  NodeFacts facts;
  facts.gpus = static_cast<int>(reading.gpus.size());
  facts.remarks = reading.remarks;
  set_links(reading, facts);
  const XmlGpu& first = reading.gpus.front();
  facts.gpu = first.card.empty() ? usual_card(first) : first.card;
  facts.gpu_sure = !first.card.empty();
  facts.chip = chip_of(first);
  bool one_kind = true;
  for (const XmlGpu& gpu : reading.gpus) {
    facts.gpu_places.push_back(gpu.place);
    one_kind = one_kind && gpu.card == first.card && gpu.sm == first.sm;
  }
  if (!one_kind) {
    facts.remarks.push_back("cards of several kinds in one node; all are taken as the first, " +
                            facts.gpu);
  }
  // Complete dumps list every link, so a card that has no switch to hang on has none. Providers'
  // files leave links to be detected.
  facts.links_told = reading.links ||
                     (facts.gpu_sure && facts.gpu.find("PCIe") != std::string::npos) ||
                     !first.gcn.empty();
  set_nets(reading, facts);
  facts.cpu = reading.cpu;
  return facts;
}

NodeFacts read_nccl_system(const pugi::xml_node& system, const std::string& name) {
  Reading reading;
  int socket = 0;
  for (const pugi::xml_node& cpu : system.children("cpu")) {
    reading.cpu = cpu_of(cpu.attribute("vendor").as_string(), cpu.attribute("arch").as_string());
    for (const pugi::xml_node& pci : cpu.children("pci")) {
      read_pci(pci, {socket, 0, 0, -1, {}}, reading, 0);
    }
    const int own = reading.labels++;
    for (const pugi::xml_node& nic : cpu.children("nic")) {
      read_nets(nic, {socket, own, own, own, {}}, reading);
    }
    ++socket;
  }
  if (reading.gpus.empty()) {
    throw Error(name, system.child("cpu")
                          ? "shows no GPU: none of its PCI devices has a class of one; the dump of "
                            "NCCL_TOPO_DUMP_FILE on the machine itself has them"
                          : "shows no GPU");
  }
  if (reading.gpus.size() > static_cast<std::size_t>(kLayoutGpusMost)) {
    throw Error(name, "shows " + std::to_string(reading.gpus.size()) +
                          " GPUs in one node; at most " + std::to_string(kLayoutGpusMost) +
                          " are read");
  }
  return facts_of(reading);
}

}  // namespace

NodeFacts read_xml(const std::string& text, const std::string& name) {
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
  if (const pugi::xml_node topology = document.child("topology")) {
    return read_lstopo(topology, name);
  }
  const pugi::xml_node system = document.child("system");
  if (!system) {
    throw Error(
        name,
        document.child("graphs")
            ? "holds NCCL graphs, not a topology; the dump of NCCL_TOPO_DUMP_FILE is one"
            : "is XML, but no topology: it has neither <system> (NCCL) nor <topology> (lstopo)");
  }
  return read_nccl_system(system, name);
}

}  // namespace trireme::topologies
