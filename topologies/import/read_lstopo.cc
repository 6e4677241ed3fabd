#include "topologies/import/read_lstopo.h"

#include <algorithm>
#include <cstdlib>
#include <pugixml.hpp>

#include "core/error.h"

namespace trireme::topologies {
namespace {

struct Walk {
  NodeFacts facts;
  int labels = 0;
  int sockets = 0;
};

// hwloc writes "0302 [10de:2330] [10de:16c1] a1": class, vendor and device.
struct PciType {
  std::string kind, vendor, device;
};
PciType pci_type(const pugi::xml_node& object) {
  const std::string text = object.attribute("pci_type").as_string();
  const std::size_t open = text.find('[');
  if (open == std::string::npos || text.size() < open + 10) {
    return {text.substr(0, 4), "", ""};
  }
  return {text.substr(0, 4), text.substr(open + 1, 4), text.substr(open + 6, 4)};
}

bool holds(const pugi::xml_node& object, const char* type, const char* name_start) {
  for (const pugi::xml_node& child : object.children("object")) {
    std::string name = child.attribute("name").as_string();
    if (std::string(child.attribute("type").as_string()) == type && name.starts_with(name_start)) {
      return true;
    }
  }
  return false;
}

// Accelerators: AMD's class 12, NVIDIA's 3D controllers, and display cards that a GPU library
// opened; a server's own graphics chip is none.
bool is_gpu(const pugi::xml_node& object, const PciType& type) {
  const bool maker = type.vendor == "10de" || type.vendor == "1002";
  const bool opened = holds(object, "OSDev", "cuda") || holds(object, "OSDev", "nvml") ||
                      holds(object, "OSDev", "rsmi");
  return maker && (type.kind == "0302" || type.kind == "1200" || type.kind == "0380" ||
                   (type.kind == "0300" && (opened || type.vendor == "10de")));
}

// RDMA adapters: InfiniBand's class, or Ethernet with a verbs device.
std::string adapter_name(const pugi::xml_node& object) {
  for (const pugi::xml_node& child : object.children("object")) {
    std::string name = child.attribute("name").as_string();
    const bool verbs = std::string(child.attribute("osdev_type").as_string()) == "3" ||
                       name.starts_with("mlx") || name.starts_with("bnxt_re") ||
                       name.starts_with("irdma") || name.starts_with("efa") ||
                       name.starts_with("hfi") || name.starts_with("rdma");
    if (verbs) {
      return name;
    }
  }
  return "";
}

// GB/s of the device's link; 0: not told, or less than `least`, as of links that sleep and of those
// that virtual machines claim.
BytesPerSecond link_rate(const pugi::xml_node& object, double least) {
  const double rate = object.attribute("pci_link_speed").as_double(0) * 1e9;
  return rate < least || rate > 1e12 ? BytesPerSecond{} : BytesPerSecond(rate);
}

void read_device(const pugi::xml_node& object, Place place, Walk& walk) {
  const PciType type = pci_type(object);
  place.leaf = place.leaf < 0 ? walk.labels++ : place.leaf;
  if (is_gpu(object, type)) {
    const std::string card = card_of_pci_id(type.vendor, type.device);
    if (walk.facts.gpus == 0) {
      walk.facts.gpu = card;
      walk.facts.gpu_sure = !card.empty();
      walk.facts.chip = "PCI device " + type.vendor + ":" + type.device;
    } else if (card != walk.facts.gpu) {
      walk.facts.remarks.push_back(
          "cards of several kinds in one node; all are taken as the first");
    }
    place.rate = link_rate(object, 0.5e9);
    walk.facts.gpu_places.push_back(place);
    ++walk.facts.gpus;
  } else if (const std::string name = adapter_name(object); !name.empty() || type.kind == "0207") {
    place.rate = link_rate(object, 4.1e9);
    walk.facts.nics.push_back({name, {}});
    walk.facts.nic_places.push_back(place);
  }
}

int pci_devices(const pugi::xml_node& object, int depth) {
  int count = 0;
  for (const pugi::xml_node& child : object.children("object")) {
    const std::string type = child.attribute("type").as_string();
    const PciType kind = type == "PCIDev" ? pci_type(child) : PciType{};
    count += type == "PCIDev" && (is_gpu(child, kind) || !adapter_name(child).empty()) ? 1 : 0;
    count += type == "Bridge" && depth < 64 ? pci_devices(child, depth + 1) : 0;
  }
  return count;
}

// The nearest package or NUMA node above a bridge is its socket.
void read_object(const pugi::xml_node& object, Place place, Walk& walk, int depth) {
  if (depth > 200) {
    return;
  }
  const std::string type = object.attribute("type").as_string();
  for (const pugi::xml_node& info : object.children("info")) {
    const std::string key = info.attribute("name").as_string();
    const std::string value = info.attribute("value").as_string();
    if (key == "CPUVendor" && walk.facts.cpu.empty()) {
      walk.facts.cpu = value == "AuthenticAMD" ? "amd" : (value == "GenuineIntel" ? "intel" : "");
    } else if (value == "aarch64") {
      walk.facts.cpu = "arm";
    }
  }
  if (type == "Package" || type == "Socket" || type == "Group" ||
      (type == "NUMANode" && object.child("object"))) {
    place.socket = walk.sockets++;
  } else if (type == "Bridge") {
    const bool host = std::string(object.attribute("bridge_type").as_string()).starts_with("0");
    if (host) {
      place.bridge = walk.labels++;
      place.tree = place.leaf = -1;
    } else {
      place.tree = place.tree < 0 ? walk.labels++ : place.tree;
      place.leaf = pci_devices(object, 0) > 1 ? walk.labels++ : place.leaf;
    }
  } else if (type == "PCIDev") {
    place.tree = place.tree < 0 ? walk.labels++ : place.tree;
    read_device(object, place, walk);
  }
  for (const pugi::xml_node& child : object.children("object")) {
    read_object(child, place, walk, depth + 1);
  }
}

}  // namespace

NodeFacts read_lstopo(const pugi::xml_node& topology, const std::string& name) {
  Walk walk;
  walk.sockets = 1;
  for (const pugi::xml_node& object : topology.children("object")) {
    read_object(object, {0, 0, -1, -1, {}}, walk, 0);
  }
  NodeFacts& facts = walk.facts;
  if (facts.gpus < 1 || facts.gpus > kLayoutGpusMost) {
    throw Error(name, "shows " + std::to_string(facts.gpus) +
                          " NVIDIA or AMD GPUs; 1 to 64 are read (lstopo hides PCI devices "
                          "unless it is run with --whole-io)");
  }
  const auto count = static_cast<std::size_t>(facts.gpus);
  facts.links.assign(count, std::vector<int>(count, 0));
  facts.switch_links.assign(count, 0);
  facts.links_told = facts.gpu_sure && facts.gpu.find("PCIe") != std::string::npos;
  facts.nics_told = !facts.nics.empty();
  return facts;
}

}  // namespace trireme::topologies
