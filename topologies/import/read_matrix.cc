// The matrix of `nvidia-smi topo -m`: cells X, NV#, PIX, PXB, PHB, NODE, SYS (SOC in old drivers);
// tabs or blanks; underlined headers; columns of adapters under any name, with or without a legend;
// CPU, NUMA and GPU NUMA columns; rows that are cut off.
#include <algorithm>
#include <map>

#include "core/error.h"
#include "topologies/import/facts.h"
#include "topologies/import/smi_matrix.h"

namespace trireme::topologies {
namespace {

// The cell between two devices, from either's row; empty: in a row that is cut off.
std::string cell(const SmiMatrix& matrix, std::size_t a, std::size_t b) {
  if (b < matrix.cells[a].size()) {
    return matrix.cells[a][b];
  }
  return a < matrix.cells[b].size() ? matrix.cells[b][a] : "";
}

// In an excerpt each distance from the diagonal repeats: GPU 5 to 7 as GPU 1 to 3.
std::string repeated_cell(const SmiMatrix& matrix, std::size_t a, std::size_t b) {
  const std::size_t distance = b - a;
  // First a pair at the same place in its half, quarter, ... of the node, then any such distance.
  for (std::size_t shift = matrix.gpus / 2; shift > 0; shift /= 2) {
    if (a >= shift && a - shift < b - shift && !cell(matrix, a - shift, b - shift).empty()) {
      return cell(matrix, a - shift, b - shift);
    }
  }
  for (std::size_t row = 0; row + distance < matrix.gpus; ++row) {
    if (!cell(matrix, row, row + distance).empty()) {
      return cell(matrix, row, row + distance);
    }
  }
  return "SYS";
}

// Adapters that no shown row is near to belong to the rows that are cut off, in order.
void fill_adapters(const SmiMatrix& matrix, std::vector<std::vector<std::string>>& cells) {
  const auto near = [&](std::size_t gpu, std::size_t device) {
    const std::optional<Path> path = path_of_word(cell(matrix, gpu, device));
    return path && *path <= Path::kTree;
  };
  std::size_t shown = 0;
  while (shown < matrix.gpus && !matrix.cells[shown].empty()) {
    ++shown;
  }
  if (shown == 0 || shown == matrix.gpus) {
    return;
  }
  // The first group: GPUs near to what GPU 0 is near to.
  std::vector<std::size_t> own;
  for (std::size_t device = matrix.gpus; device < matrix.devices.size(); ++device) {
    if (near(0, device)) {
      own.push_back(device);
    }
  }
  if (own.empty()) {
    return;
  }
  std::size_t members = 1;  // GPU 0, from which `own` was read
  while (members < shown && near(members, own.front())) {
    ++members;
  }
  for (std::size_t gpu = shown; gpu < matrix.gpus; ++gpu) {
    const std::size_t group = gpu / members;
    for (std::size_t i = 0; i < own.size(); ++i) {
      const std::size_t device = matrix.gpus + group * own.size() + i;
      if (device < matrix.devices.size()) {
        cells[gpu][device] = cells[device][gpu] = cell(matrix, gpu % members, own[i]);
      }
    }
  }
}

std::vector<std::vector<std::string>> whole_cells(const SmiMatrix& matrix,
                                                  std::vector<std::string>& remarks) {
  const std::size_t count = matrix.devices.size();
  std::vector<std::vector<std::string>> cells(count, std::vector<std::string>(count));
  std::size_t filled = 0;
  for (std::size_t a = 0; a < count; ++a) {
    for (std::size_t b = a + 1; b < count; ++b) {
      std::string text = cell(matrix, a, b);
      if (text.empty() && b < matrix.gpus) {
        text = repeated_cell(matrix, a, b);
        ++filled;
      }
      cells[a][b] = cells[b][a] = text;
    }
  }
  fill_adapters(matrix, cells);
  if (filled > 0) {
    remarks.push_back(
        "rows of the matrix that are cut off, from the pattern of those that are there");
  }
  return cells;
}

// Adapters that share a card with another one (the two ports of a DPU), where as many have a card
// of their own as there are GPUs.
std::vector<bool> ports_beside_single(const SmiMatrix& matrix,
                                      const std::vector<std::vector<std::string>>& cells) {
  const std::size_t nics = matrix.devices.size() - matrix.gpus;
  std::vector<bool> ports(nics);
  for (std::size_t i = 0; i < nics; ++i) {
    for (std::size_t j = 0; j < nics; ++j) {
      const auto path = path_of_word(cells[matrix.gpus + i][matrix.gpus + j]);
      ports[i] = ports[i] || (i != j && path && *path <= Path::kSwitch);
    }
  }
  const auto single = static_cast<std::size_t>(std::ranges::count(ports, false));
  return single == matrix.gpus ? ports : std::vector<bool>(nics);
}

// Adapters that are no part of the fabric: no GPU is near them while others are near some, or they
// go by another kind of name (bonds, Ethernet ports).
std::vector<bool> fabric_adapters(const SmiMatrix& matrix,
                                  const std::vector<std::vector<std::string>>& cells) {
  const std::size_t nics = matrix.devices.size() - matrix.gpus;
  std::vector<Path> nearest(nics, Path::kSystem);
  std::vector<bool> plain_name(nics, true);
  for (std::size_t i = 0; i < nics; ++i) {
    for (std::size_t gpu = 0; gpu < matrix.gpus; ++gpu) {
      nearest[i] =
          std::min(nearest[i], path_of_word(cells[gpu][matrix.gpus + i]).value_or(Path::kSystem));
    }
    const std::string& column = matrix.devices[matrix.gpus + i];
    const auto found = matrix.legend.find(column);
    const std::string name = found == matrix.legend.end() ? column : found->second;
    plain_name[i] = name.find("bond") == std::string::npos && !name.starts_with("eth") &&
                    !name.starts_with("eno") && !name.starts_with("ens") &&
                    !name.starts_with("enp") && !name.starts_with("usb") &&
                    !name.starts_with("i40") && !name.starts_with("irdma");
  }
  const std::vector<bool> ports = ports_beside_single(matrix, cells);
  const Path best = nics > 0 ? *std::ranges::min_element(nearest) : Path::kSystem;
  const bool some_plain = std::ranges::find(plain_name, true) != plain_name.end();
  std::vector<bool> fabric(nics);
  for (std::size_t i = 0; i < nics; ++i) {
    const bool far = nearest[i] >= Path::kNode && best <= Path::kBridge;
    const bool port = best >= Path::kNode && ports[i];
    fabric[i] = !far && !port && (plain_name[i] || !some_plain);
  }
  return fabric;
}

// Which NVIDIA GPU has so many links to one switch, or to the three others of a board of four,
// beside Grace or another CPU; "" when several have.
std::string gpu_of_links(const std::vector<std::vector<int>>& between, bool grace) {
  int links = 0;
  bool even = true;
  for (std::size_t a = 0; a < between.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      links = std::max(links, between[a][b]);
      even = even && between[a][b] == between[1][0];
    }
  }
  const bool board_of_four = even && between.size() == 4 && (links == 6 || links == 4);
  links *= board_of_four ? 3 : 1;
  if (grace && (links == 18 || between.size() == 1)) {
    return board_of_four || between.size() == 1 ? "GH200" : "GB200";
  }
  return links == 18 ? "H100" : (links == 12 ? "A100" : (links == 6 ? "V100" : ""));
}

// Whether the cells say where adapters hang: not where one a GPU is as far as can be from all GPUs,
// as on trays of several Grace CPUs, whose GPUs have no PCIe switch.
bool tells_adapters(const SmiMatrix& matrix, const std::vector<std::vector<std::string>>& cells,
                    const std::vector<bool>& fabric) {
  const auto kept = static_cast<std::size_t>(std::ranges::count(fabric, true));
  bool near = false;
  for (std::size_t gpu = 0; gpu < matrix.gpus; ++gpu) {
    for (std::size_t i = 0; i < fabric.size(); ++i) {
      const auto path = path_of_word(cells[gpu][matrix.gpus + i]);
      near = near || (fabric[i] && path.value_or(Path::kSystem) < Path::kSystem);
    }
  }
  return near || kept < matrix.gpus || matrix.gpus == 1;
}

// NV# hides the PCIe path, so GPUs are placed by their NUMA node and by what adapters are near
// them.
void place(const SmiMatrix& matrix, const std::vector<std::vector<std::string>>& cells,
           const std::vector<bool>& fabric, NodeFacts& facts) {
  DevicePaths devices;
  std::vector<std::size_t> kept;
  const bool told_nics = tells_adapters(matrix, cells, fabric);
  for (std::size_t i = 0; i < matrix.devices.size(); ++i) {
    if (i < matrix.gpus || (told_nics && fabric[i - matrix.gpus])) {
      kept.push_back(i);
      devices.names.push_back(matrix.devices[i]);
      devices.memory.push_back(matrix.memory[i]);
    }
  }
  bool told = false;
  bool switches = false;
  for (const std::size_t a : kept) {
    std::vector<std::optional<Path>> row;
    for (const std::size_t b : kept) {
      row.push_back(a == b ? Path::kSame : path_of_word(cells[a][b]));
      const bool of_gpus = a != b && std::min(a, b) < matrix.gpus;
      told = told || (of_gpus && row.back());
      switches = switches || (of_gpus && row.back() &&
                              (*row.back() <= Path::kTree || std::max(a, b) < matrix.gpus));
    }
    devices.paths.push_back(std::move(row));
  }
  const bool memory = std::ranges::any_of(matrix.memory, [](const auto& m) { return !m.empty(); });
  if (!told && !memory) {
    return;
  }
  const std::vector<Place> places = place_devices(devices, facts.remarks, facts.doubts);
  const auto first_nic = places.begin() + static_cast<std::ptrdiff_t>(matrix.gpus);
  facts.gpu_places.assign(places.begin(), first_nic);
  facts.nic_places.assign(first_nic, places.end());
  facts.switches_told = switches || matrix.gpus == 1;
}

// Two rows that name two paths between the same devices.
void note_contradictions(const SmiMatrix& matrix, NodeFacts& facts) {
  constexpr int kNamed = 4;
  int count = 0;
  for (std::size_t a = 0; a < matrix.devices.size(); ++a) {
    for (std::size_t b = a + 1; b < matrix.devices.size(); ++b) {
      if (b >= matrix.cells[a].size() || a >= matrix.cells[b].size() ||
          matrix.cells[a][b] == matrix.cells[b][a] || ++count > kNamed) {
        continue;
      }
      facts.doubts.push_back({matrix.devices[a] + " to " + matrix.devices[b],
                              "is " + matrix.cells[a][b] + " in the row of " + matrix.devices[a] +
                                  " and " + matrix.cells[b][a] + " in that of " +
                                  matrix.devices[b] + "; the first is taken",
                              "print the matrix again: nvidia-smi topo -m"});
    }
  }
}

// Rows that are not there although every cell of theirs stands in another row.
void note_missing_rows(const SmiMatrix& matrix, NodeFacts& facts) {
  for (std::size_t row = 0; row < matrix.gpus; ++row) {
    if (matrix.cells[row].empty()) {
      facts.remarks.push_back("the row of " + matrix.devices[row] +
                              " is not there: its paths are those of the other rows");
    }
  }
}

constexpr const char* kNoPeersFix =
    "look for PCIe ACS (lspci -vvv: ACSCtl with SrcValid+), for an IOMMU, and for cards of unlike "
    "kinds";

}  // namespace

NodeFacts read_matrix(const std::string& text, const std::string& name) {
  const SmiMatrix matrix = parse_smi_matrix(text, name);
  NodeFacts facts;
  if (matrix.gpus > static_cast<std::size_t>(kLayoutGpusMost)) {
    throw Error(name, "shows " + std::to_string(matrix.gpus) + " GPUs in one node; at most " +
                          std::to_string(kLayoutGpusMost) + " are read");
  }
  const auto cells = whole_cells(matrix, facts.remarks);
  note_contradictions(matrix, facts);
  if (facts.remarks.empty()) {
    note_missing_rows(matrix, facts);
  }
  facts.gpus = static_cast<int>(matrix.gpus);
  facts.links.assign(matrix.gpus, std::vector<int>(matrix.gpus, 0));
  facts.switch_links.assign(matrix.gpus, 0);
  facts.links_told = true;
  for (std::size_t a = 0; a < matrix.gpus; ++a) {
    for (std::size_t b = 0; b < matrix.gpus; ++b) {
      facts.links[a][b] = a == b ? 0 : links_of_word(cells[a][b]);
    }
  }
  const NamedCard card = card_named_in(text);
  facts.gpu_sure = card.gpu != nullptr;
  facts.chip = card.unknown;
  facts.gpu = card.gpu != nullptr    ? card.gpu->name
              : card.unknown.empty() ? gpu_of_links(facts.links, matrix.grace)
                                     : "";
  const std::vector<bool> fabric = fabric_adapters(matrix, cells);
  std::string left_out;
  for (std::size_t i = 0; i < fabric.size(); ++i) {
    const std::string& column = matrix.devices[matrix.gpus + i];
    const auto legend = matrix.legend.find(column);
    const std::string nic = legend == matrix.legend.end() ? column : legend->second;
    if (fabric[i]) {
      facts.nics.push_back({nic, {}});
    } else {
      left_out += (left_out.empty() ? "" : ", ") + nic;
    }
  }
  facts.nics_told = !facts.nics.empty();
  if (!left_out.empty()) {
    facts.remarks.push_back(
        "adapters that are no part of the fabric are left out, being far from "
        "every GPU, ports of one card or of another kind: " +
        left_out);
  }
  place(matrix, cells, fabric, facts);
  const bool access = matrix.peers + matrix.strangers > 0;
  if (access) {
    facts.peer_to_peer = matrix.peers > 0;
    if (matrix.peers > 0 && matrix.strangers > 0) {
      facts.doubts.push_back(
          {"peer access",
           std::to_string(matrix.strangers / 2) + " of " +
               std::to_string((matrix.peers + matrix.strangers) / 2) +
               " pairs of GPUs have none by the second matrix; all are taken to have it",
           kNoPeersFix});
    }
  }
  if (matrix.matrices > (access ? 2U : 1U)) {
    facts.remarks.push_back("the first of " + std::to_string(matrix.matrices) +
                            " matrices in the file");
  }
  return facts;
}

}  // namespace trireme::topologies
