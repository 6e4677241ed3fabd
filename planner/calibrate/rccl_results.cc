#include "planner/calibrate/rccl_results.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "core/error.h"

namespace trireme::planner {
namespace {

using Row = std::map<std::string, std::string>;  // by column

// A number of a row; none where it has no such column.
std::optional<double> number_of(const Row& row, const char* column, const std::string& where) {
  const auto found = row.find(column);
  if (found == row.end()) {
    return std::nullopt;
  }
  const std::string& text = found->second;
  double number = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() ||
      !(number >= 0.0 && number <= 1e15)) {  // also of nan
    throw Error(where,
                fmt::format("{} is '{}'; a number would be right", column, text.substr(0, 40)));
  }
  return number;
}

double needed(const Row& row, const char* column, const std::string& where) {
  const std::optional<double> number = number_of(row, column, where);
  if (!number) {
    throw Error(where, fmt::format("has no {}, as rows of rccl-tests have", column));
  }
  return *number;
}

// "AllReduce", "all_reduce_perf" and "alltoall" as nccl-tests names its tools.
std::string operation_of(const Row& row) {
  const auto found = row.find("name");
  std::string plain;
  for (const char c : found == row.end() ? std::string() : found->second) {
    if (std::isalpha(static_cast<unsigned char>(c)) != 0) {
      plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  constexpr std::pair<const char*, const char*> kTools[] = {
      {"allreduce", "all_reduce"}, {"allgather", "all_gather"}, {"reducescatter", "reduce_scatter"},
      {"alltoall", "all_to_all"},  {"broadcast", "broadcast"},  {"sendrecv", "send_recv"}};
  for (const auto& [name, operation] : kTools) {
    if (plain == name || plain == name + std::string("perf")) {
      return operation;
    }
  }
  return found == row.end() ? "" : found->second.substr(0, 40);
}

class Tables {
 public:
  void add(const Row& row, std::size_t line, const std::string& where) {
    const double wrong = number_of(row, "wrong", where).value_or(0.0);
    const auto bytes = static_cast<std::int64_t>(needed(row, "size", where));
    if (wrong > 0.0) {
      throw Error(where, fmt::format("{} values of {} bytes were wrong; times of wrong results are "
                                     "not taken",
                                     wrong, bytes));
    }
    NcclLogTable& table = table_of(row, line, where);
    auto at = std::ranges::find(table.rows, bytes, &NcclLogRow::bytes);
    if (at == table.rows.end()) {
      at = table.rows.insert(table.rows.end(), NcclLogRow{.bytes = bytes});
    }
    const double seconds = needed(row, "time", where) * 1e-6;
    const double bus = number_of(row, "busBw", where).value_or(0.0);
    const auto place = row.find("inPlace");
    const bool in_place = place != row.end() && (place->second == "1" || place->second == "true");
    // Of several cycles the last counts: the first ones warm up.
    (in_place ? at->in_place_seconds : at->seconds) = seconds;
    (in_place ? at->in_place_bus_gbytes_per_second : at->bus_gbytes_per_second) = bus;
  }

  std::vector<NcclLogTable> take(const std::string& where) {
    for (NcclLogTable& table : tables_) {
      for (NcclLogRow& row : table.rows) {
        row.seconds = row.seconds > 0.0 ? row.seconds : row.in_place_seconds;
      }
      std::erase_if(table.rows,
                    [](const NcclLogRow& row) { return row.bytes <= 0 || row.seconds <= 0.0; });
    }
    std::erase_if(tables_, [](const NcclLogTable& table) { return table.rows.empty(); });
    if (tables_.empty()) {
      throw Error(where, "holds no size with a time");
    }
    return std::move(tables_);
  }

 private:
  NcclLogTable& table_of(const Row& row, std::size_t line, const std::string& where) {
    const std::string operation = operation_of(row);
    const auto ranks = static_cast<std::int64_t>(number_of(row, "ranks", where).value_or(0.0));
    for (NcclLogTable& table : tables_) {
      if (table.operation == operation && table.ranks == ranks) {
        return table;
      }
    }
    NcclLogTable& table = tables_.emplace_back();
    table.operation = operation;
    table.ranks = ranks;
    table.hosts = static_cast<std::int64_t>(number_of(row, "nodes", where).value_or(0.0));
    table.line = line;
    return table;
  }

  std::vector<NcclLogTable> tables_;
};

std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells;
  std::istringstream stream(line);
  for (std::string cell; std::getline(stream, cell, ',');) {
    cell.erase(0, cell.find_first_not_of(" \t\""));
    cell.erase(cell.find_last_not_of(" \t\r\"") + 1);
    cells.push_back(cell);
  }
  return cells;
}

}  // namespace

bool is_rccl_csv(const std::string& text) {
  const std::string head = text.substr(0, text.find('\n'));
  return head.find("size,") != std::string::npos && head.find("busBw") != std::string::npos;
}

std::vector<NcclLogTable> rccl_csv(const std::string& text, const std::string& where) {
  Tables tables;
  std::vector<std::string> columns;
  std::istringstream stream(text);
  std::size_t number = 0;
  for (std::string line; std::getline(stream, line);) {
    ++number;
    const std::vector<std::string> cells = cells_of(line);
    if (std::ranges::all_of(cells, &std::string::empty)) {
      continue;
    }
    if (std::ranges::find(cells, "busBw") != cells.end()) {
      columns = cells;  // each run appends its own header
      continue;
    }
    Row row;
    for (std::size_t i = 0; i < std::min(cells.size(), columns.size()); ++i) {
      row[columns[i]] = cells[i];
    }
    tables.add(row, number, fmt::format("{}:{}", where, number));
  }
  return tables.take(where);
}

std::vector<NcclLogTable> rccl_json(const nlohmann::json& rows, const std::string& where) {
  Tables tables;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::string at = fmt::format("{}#/{}", where, i);
    if (!rows[i].is_object()) {
      throw Error(at, "should be an object, as rows of rccl-tests are");
    }
    Row row;
    for (const auto& [key, value] : rows[i].items()) {
      row[key] = value.is_string() ? value.get<std::string>() : value.dump();
    }
    tables.add(row, 1, at);
  }
  return tables.take(where);
}

}  // namespace trireme::planner
