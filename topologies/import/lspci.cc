#include "topologies/import/lspci.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <sstream>

namespace trireme::topologies {
namespace {

struct PciDevice {
  std::string address, kind;  // "17:00.0", "3D controller"
  int width = 0, width_most = 0;
  double speed = 0.0, speed_most = 0.0;  // GT/s
  bool redirects = false;                // ACS is on
};

// "17:00.0 3D controller: NVIDIA ..." or "0000:17:00.0 ...": a device's first line.
bool starts_device(const std::string& line) {
  const std::size_t blank = line.find(' ');
  if (blank == std::string::npos || blank < 7 || blank > 16 || line[blank - 2] != '.') {
    return false;
  }
  return std::ranges::all_of(line.substr(0, blank), [](unsigned char c) {
    return std::isxdigit(c) != 0 || c == ':' || c == '.';
  });
}

double number_behind(const std::string& line, const char* word) {
  const std::size_t at = line.find(word);
  return at == std::string::npos
             ? 0.0
             : std::strtod(line.c_str() + at + std::char_traits<char>::length(word), nullptr);
}

// "LnkCap: Port #0, Speed 32GT/s, Width x16, ...", "LnkSta: Speed 8GT/s (downgraded), Width x4".
void read_link(const std::string& line, int& width, double& speed) {
  width = static_cast<int>(std::clamp(number_behind(line, "Width x"), 0.0, 64.0));
  speed = std::clamp(number_behind(line, "Speed "), 0.0, 1024.0);
}

std::vector<PciDevice> devices_of(const std::string& text) {
  std::vector<PciDevice> devices;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    if (starts_device(line)) {
      const std::size_t blank = line.find(' ');
      const std::size_t colon = line.find(": ", blank);
      devices.push_back({line.substr(0, blank),
                         line.substr(blank + 1, std::min(colon - blank - 1, std::size_t{40}))});
      continue;
    }
    if (devices.empty()) {
      continue;
    }
    PciDevice& device = devices.back();
    if (line.find("LnkCap:") != std::string::npos) {
      read_link(line, device.width_most, device.speed_most);
    } else if (line.find("LnkSta:") != std::string::npos) {
      read_link(line, device.width, device.speed);
    } else if (line.find("ACSCtl:") != std::string::npos) {
      device.redirects = line.find("SrcValid+") != std::string::npos;
    }
  }
  return devices;
}

bool is_card(const PciDevice& device) {
  return device.kind.starts_with("3D controller") || device.kind.starts_with("VGA compatible") ||
         device.kind.starts_with("Display controller") ||
         device.kind.starts_with("Processing accelerators");
}

bool is_adapter(const PciDevice& device) {
  return device.kind.starts_with("Infiniband controller") ||
         device.kind.starts_with("Ethernet controller") ||
         device.kind.starts_with("Network controller");
}

std::string text_of(double value) {
  std::ostringstream text;
  text << value;
  return text.str();
}

}  // namespace

bool is_lspci(const std::string& text) {
  return text.find("LnkCap:") != std::string::npos && text.find("LnkSta:") != std::string::npos;
}

std::vector<Doubt> lspci_doubts(const std::string& text) {
  std::vector<Doubt> doubts;
  std::string redirecting;
  int count = 0;
  bool any = false;
  for (const PciDevice& device : devices_of(text)) {
    const bool counts = is_card(device) || is_adapter(device);
    any = any || counts;
    if (counts && device.width > 0 && device.width < device.width_most) {
      doubts.push_back({device.address,
                        device.kind + " on x" + std::to_string(device.width) + " of its x" +
                            std::to_string(device.width_most),
                        "reseat it or its riser, and look at the slot's width in the BIOS"});
    }
    // Idle cards slow their links down to save power; adapters do not.
    if (is_adapter(device) && device.speed > 0.0 && device.speed < device.speed_most) {
      doubts.push_back({device.address,
                        device.kind + " at " + text_of(device.speed) + " of its " +
                            text_of(device.speed_most) + " GT/s",
                        "look at the slot's generation in the BIOS"});
    }
    if (device.redirects) {
      redirecting += ++count <= 4 ? (count > 1 ? ", " : "") + device.address : "";
    }
  }
  if (!any) {
    doubts.push_back({"lspci", "lists neither a GPU nor an adapter: nothing was looked at",
                      "give the whole of lspci -vvv, as root"});
  }
  if (count > 0) {
    doubts.push_back(
        {"PCIe ACS",
         "is on for " + std::to_string(count) + " devices (" + redirecting +
             (count > 4 ? ", ..." : "") +
             "): messages between GPUs, and from adapters to GPUs, go by way of the CPU",
         "switch it off on the bridges (setpci -s ADDRESS ECAP_ACS+6.w=0000), or the "
         "IOMMU in the BIOS; in a virtual machine enable ATS instead"});
  }
  return doubts;
}

}  // namespace trireme::topologies
