#include "topologies/import/nccl_tree.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <sstream>

namespace trireme::topologies {
namespace {

constexpr std::size_t kDevicesMost = 4096;

// "+ NET[50.0] - NET/0-c (0/d4f9fc0003ae6d94/1/50.000000)", or "CPU/0-0 (1/2/-1)" without a link.
struct Line {
  std::size_t column = 0;
  std::string link, kind, id;  // "NET", "NET", "c"
  double rate = 0.0;
};

bool split(const std::string& text, Line& line) {
  line.column = text.find_first_not_of(" \t");
  if (line.column == std::string::npos) {
    return false;
  }
  std::istringstream stream(text.substr(line.column));
  std::string word;
  stream >> word;
  if (word == "+") {
    std::string dash;
    if (!(stream >> word >> dash) || dash != "-" || word.find('[') == std::string::npos) {
      return false;
    }
    line.link = word.substr(0, word.find('['));
    line.rate = std::strtod(word.c_str() + word.find('[') + 1, nullptr);
    stream >> word;
  } else if (!word.starts_with("CPU/")) {
    return false;
  }
  const std::size_t slash = word.find('/');
  if (slash == std::string::npos) {
    return false;
  }
  line.kind = word.substr(0, slash);
  line.id = device_id(word);
  // A net's own speed ends the parenthesis: that of the link may be cut to the switch's.
  if (line.kind == "NET" && stream >> word && word.ends_with(')')) {
    const double speed = std::strtod(word.c_str() + word.rfind('/') + 1, nullptr);
    line.rate = speed > 0.0 ? speed : line.rate;
  }
  return true;
}

class TreeReader {
 public:
  void add(const Line& line) {
    if (line.link.empty()) {
      stack_ = {line};
      return;
    }
    while (stack_.size() > 1 && stack_.back().column >= line.column) {
      stack_.pop_back();
    }
    if (stack_.empty()) {
      return;
    }
    const bool fast = line.link == "NVL" || line.link == "XGMI";
    // Newer versions hang several GPUs, and their links, on a device: "DEV/0-b000".
    if (fast && (line.kind == "GPU" || line.kind == "DEV")) {
      tree.links[{stack_.back().id, line.id}] = tree.links[{line.id, stack_.back().id}] = line.rate;
    } else if (fast && line.kind == "NVS") {
      tree.switched[stack_.back().id] += line.rate;
    } else if (line.link != "SYS") {
      place(line);
      stack_.push_back(line);
    }
  }

  NcclTree tree;

 private:
  void place(const Line& line) {
    std::vector<NcclTree::Device>* list =
        line.kind == "GPU" ? &tree.gpus : (line.kind == "NET" ? &tree.nets : nullptr);
    if (list == nullptr || list->size() >= kDevicesMost ||
        std::ranges::find(*list, line.id, &NcclTree::Device::id) != list->end()) {
      return;
    }
    NcclTree::Device device{line.id, {}, 0.0};
    // Virtual machines claim bridges of 2.5 GT/s x1, which NCCL books at 0.2.
    const auto narrow = [&device](const Line& on_way) {
      const bool told = on_way.link == "PCI" && on_way.rate > 0.5;
      device.pcie =
          told && (device.pcie <= 0.0 || on_way.rate < device.pcie) ? on_way.rate : device.pcie;
    };
    narrow(line);
    for (const Line& above : stack_) {
      narrow(above);
      if (above.kind == "CPU" || above.kind == "PCI") {
        device.above.push_back(above.kind + above.id);
      }
    }
    list->push_back(std::move(device));
    if (line.kind == "NET") {
      tree.net_rates[line.id] = line.rate;
    }
  }

  std::vector<Line> stack_;
};

}  // namespace

std::string device_id(const std::string& word) {
  std::string id = word.substr(word.find('/') + 1);
  std::ranges::transform(id, id.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const std::size_t dash = id.rfind('-');
  return dash == std::string::npos ? id : id.substr(dash + 1);
}

NcclTree read_nccl_tree(const std::string& text) {
  constexpr std::string_view kInfo = "NCCL INFO ";
  TreeReader reader;
  std::string printer;  // "host:pid:thread [device] " of the rank whose lines are read
  bool inside = false;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    const std::size_t info = line.find(kInfo);
    const std::size_t start = info == std::string::npos ? 0 : info + kInfo.size();
    const std::string who = line.substr(0, start);
    if (line.find("=== System :", start) != std::string::npos) {
      if (printer.empty() && !inside) {
        printer = who;
        inside = true;
      }
      continue;
    }
    if (!inside || who != printer) {
      continue;
    }
    if (line.find("==========", start) != std::string::npos) {
      break;
    }
    if (Line entry; split(line.substr(start), entry)) {
      reader.add(entry);
    }
  }
  return std::move(reader.tree);
}

}  // namespace trireme::topologies
