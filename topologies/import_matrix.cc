// The matrix of `nvidia-smi topo -m` (cells X, NV#, PIX, PXB, PHB, NODE, SYS; tabs or blanks; NIC
// columns under any name; rows may be cut off) and the "Link Type" table of `rocm-smi --showtopo`
// (XGMI, PCIE).
#include <algorithm>
#include <cctype>
#include <charconv>
#include <sstream>

#include "core/error.h"
#include "topologies/import.h"

namespace trireme::topologies {
namespace {

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) {
    words.push_back(word);
  }
  return words;
}

bool is_gpu_name(const std::string& word) {
  return word.size() > 3 && word.starts_with("GPU") &&
         std::ranges::all_of(word.substr(3), [](unsigned char c) { return std::isdigit(c) != 0; });
}

bool is_path(const std::string& word) {
  constexpr const char* kPaths[] = {"X", "PIX", "PXB", "PHB", "NODE", "SYS", "XGMI", "PCIE", "0"};
  return std::ranges::find(kPaths, word) != std::end(kPaths) || word.starts_with("NV");
}

struct Matrix {
  std::size_t gpus = 0;
  std::size_t nics = 0;
  std::vector<std::vector<std::string>> cells;  // by GPU; a row that is cut off is empty
};

// Header words up to the affinity columns. "GPU NUMA ID" is three words of one column behind them.
void read_header(const std::vector<std::string>& words, Matrix& matrix) {
  matrix.gpus = matrix.nics = 0;
  for (const std::string& word : words) {
    if (is_gpu_name(word)) {
      ++matrix.gpus;
    } else if (word == "CPU" || word == "NUMA" || word == "GPU" || word == "Affinity") {
      break;
    } else {
      ++matrix.nics;
    }
  }
}

Matrix read_matrix(const std::string& text, const std::string& name) {
  Matrix matrix;
  std::istringstream stream(text);
  // A rocm-smi report holds several tables; the one that names link types counts.
  bool reading = text.find("Link Type between") == std::string::npos;
  bool header = false;
  for (std::string line; std::getline(stream, line);) {
    if (line.find("Link Type between") != std::string::npos) {
      reading = true;
      continue;
    }
    const std::vector<std::string> words = words_of(line);
    if (!reading || words.empty() || !is_gpu_name(words[0])) {
      continue;
    }
    if (!header && (words.size() == 1 || !is_path(words[1]))) {
      read_header(words, matrix);
      matrix.cells.assign(matrix.gpus, {});
      header = true;
      continue;
    }
    const std::size_t row =
        std::min<std::size_t>(std::strtoul(words[0].c_str() + 3, nullptr, 10), 1U << 20);
    if (!header || row >= matrix.gpus) {
      throw Error(name, "row '" + words[0] + "' has no column of its own in the header");
    }
    std::vector<std::string> cells(words.begin() + 1, words.end());
    const bool complete =
        cells.size() >= matrix.gpus &&
        std::all_of(cells.begin(), cells.begin() + static_cast<std::ptrdiff_t>(matrix.gpus),
                    is_path);
    if (!complete) {
      throw Error(name,
                  "row '" + words[0] +
                      "' has fewer cells than the header has GPUs, or one that is no path (X, " +
                      "NV#, PIX, PXB, PHB, NODE, SYS)");
    }
    matrix.cells[row] = std::move(cells);
  }
  if (!header || matrix.gpus == 0 ||
      std::ranges::all_of(matrix.cells, [](const auto& row) { return row.empty(); })) {
    throw Error(
        name, "is neither topology XML nor a matrix of nvidia-smi topo -m or rocm-smi --showtopo");
  }
  return matrix;
}

// The path between two GPUs, from either's row; an excerpt without both rows says what the first
// rows' pattern says.
std::string path_between(const Matrix& matrix, std::size_t a, std::size_t b) {
  if (!matrix.cells[a].empty()) {
    return matrix.cells[a][b];
  }
  if (!matrix.cells[b].empty()) {
    return matrix.cells[b][a];
  }
  const std::size_t distance = b - a;
  for (std::size_t row = 0; row + distance < matrix.gpus; ++row) {
    if (!matrix.cells[row].empty()) {
      return matrix.cells[row][row + distance];
    }
  }
  return "SYS";
}

int nvlinks(const std::string& path) {
  if (path == "XGMI") {
    return 1;
  }
  int count = 0;
  if (path.starts_with("NV")) {
    std::from_chars(path.data() + 2, path.data() + path.size(), count);
  }
  return count;
}

// Which NVIDIA GPU has so many links to one switch; "" when several have.
std::string gpu_of_links(int links) {
  return links == 18 ? "H100" : (links == 12 ? "A100" : (links == 6 ? "V100" : ""));
}

}  // namespace

NodeFacts read_topology_matrix(const std::string& text, const std::string& name) {
  const Matrix matrix = read_matrix(text, name);
  NodeFacts facts;
  facts.gpus = static_cast<int>(matrix.gpus);
  facts.links.assign(matrix.gpus, std::vector<int>(matrix.gpus, 0));
  facts.switch_links.assign(matrix.gpus, 0);
  facts.links_told = true;
  facts.pcie_group.resize(matrix.gpus);
  facts.socket.resize(matrix.gpus);
  int most_links = 0;
  for (std::size_t b = 0; b < matrix.gpus; ++b) {
    facts.pcie_group[b] = facts.socket[b] = static_cast<int>(b);
    for (std::size_t a = 0; a < b; ++a) {
      const std::string path = path_between(matrix, a, b);
      facts.links[a][b] = facts.links[b][a] = nvlinks(path);
      most_links = std::max(most_links, facts.links[a][b]);
      const bool below_switch = path == "PIX" || path == "PXB";
      const bool one_socket = below_switch || path == "PHB" || path == "NODE";
      if (below_switch) {
        facts.pcie_group[b] = facts.pcie_group[a];
      }
      if (one_socket) {
        facts.socket[b] = facts.socket[a];
      }
    }
  }
  if (most_links > 0) {
    // NV# hides the PCIe path, so the usual layout of such nodes: halves on two sockets, two GPUs a
    // switch.
    for (std::size_t i = 0; i < matrix.gpus; ++i) {
      facts.pcie_group[i] = static_cast<int>(i / 2);
      facts.socket[i] = matrix.gpus > 1 && i >= matrix.gpus / 2 ? 1 : 0;
    }
  }
  facts.gpu = gpu_of_links(most_links);
  facts.nics = static_cast<int>(matrix.nics);
  facts.nics_told = matrix.nics > 0;
  return facts;
}

}  // namespace trireme::topologies
