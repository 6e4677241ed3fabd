// Which card a PCI device id is (the public list of PCI ids, pci-ids.ucw.cz).
#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

#include "topologies/import/facts.h"

namespace trireme::topologies {
namespace {

struct Card {
  std::string_view vendor, device, name;
};
constexpr std::array kCards = {Card{"10de", "1db0", "V100-SXM2-16GB"},
                               Card{"10de", "1db1", "V100-SXM2-16GB"},
                               Card{"10de", "1db5", "V100-SXM2-32GB"},
                               Card{"10de", "1db8", "V100-SXM2-32GB"},
                               Card{"10de", "1db6", "V100-PCIe-32GB"},
                               Card{"10de", "1eb8", "T4-16GB"},
                               Card{"10de", "20b0", "A100-SXM4-40GB"},
                               Card{"10de", "20b2", "A100-SXM4-80GB"},
                               Card{"10de", "20b1", "A100-PCIe-40GB"},
                               Card{"10de", "20f1", "A100-PCIe-40GB"},
                               Card{"10de", "20b5", "A100-PCIe-80GB"},
                               Card{"10de", "20f3", "A800-SXM4-80GB"},
                               Card{"10de", "2235", "A40-48GB"},
                               Card{"10de", "2236", "A10-24GB"},
                               Card{"10de", "2237", "A10-24GB"},
                               Card{"10de", "2230", "RTX-A6000-48GB"},
                               Card{"10de", "2204", "RTX-3090-24GB"},
                               Card{"10de", "26b9", "L40S-48GB"},
                               Card{"10de", "26b5", "L40-48GB"},
                               Card{"10de", "27b8", "L4-24GB"},
                               Card{"10de", "2684", "RTX-4090-24GB"},
                               Card{"10de", "2330", "H100-SXM5-80GB"},
                               Card{"10de", "2331", "H100-PCIe-80GB"},
                               Card{"10de", "2321", "H100-NVL-94GB"},
                               Card{"10de", "2324", "H800-SXM-80GB"},
                               Card{"10de", "2329", "H20-96GB"},
                               Card{"10de", "2335", "H200-SXM-141GB"},
                               Card{"10de", "2342", "GH200-96GB"},
                               Card{"10de", "2901", "B200-SXM-180GB"},
                               Card{"10de", "2941", "GB200-186GB"},
                               Card{"10de", "3182", "B300-SXM-288GB"},
                               Card{"10de", "31c2", "GB300-288GB"},
                               Card{"10de", "2b85", "RTX-5090-32GB"},
                               Card{"10de", "2bb5", "RTX-PRO-6000-BSE-96GB"},
                               Card{"10de", "2bb1", "RTX-PRO-6000-BSE-96GB"},
                               Card{"10de", "2e12", "GB10-128GB"},
                               Card{"1002", "738c", "MI100-32GB"},
                               Card{"1002", "740f", "MI210-64GB"},
                               Card{"1002", "7408", "MI250X-GCD-64GB"},
                               Card{"1002", "740c", "MI250X-GCD-64GB"},
                               Card{"1002", "74a0", "MI300A-128GB"},
                               Card{"1002", "74a1", "MI300X-192GB"},
                               Card{"1002", "74b5", "MI300X-192GB"},
                               Card{"1002", "74a2", "MI308X-192GB"},
                               Card{"1002", "74a5", "MI325X-256GB"},
                               Card{"1002", "75a3", "MI355X-288GB"}};

std::string hex_digits(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text.starts_with("0x") ? text.substr(2) : text;
}

}  // namespace

std::string card_of_pci_id(const std::string& vendor, const std::string& device) {
  const std::string maker = hex_digits(vendor);
  const std::string id = hex_digits(device);
  const auto found = std::ranges::find_if(
      kCards, [&](const Card& card) { return card.vendor == maker && card.device == id; });
  return found == kCards.end() ? "" : std::string(found->name);
}

}  // namespace trireme::topologies
