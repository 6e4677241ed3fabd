#include "runtime/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "core/check.h"
#include "core/error.h"
#include "core/json_reader.h"
#include "runtime/durable_file.h"

namespace trireme::runtime {
namespace {

namespace fs = std::filesystem;

constexpr std::array<State, 3> kSaved = {State::kMaster, State::kMoment1, State::kMoment2};

// The part of a tensor that lies in a file: core's ParameterSlice without the memory.
struct Piece {
  std::int64_t row_begin = 0, row_count = 0, column_begin = 0, column_count = 0;
  std::int64_t flat_begin = 0, count = 0;
  friend auto operator<=>(const Piece&, const Piece&) = default;
};

Piece piece_of(const ParameterSlice& slice) {
  return {slice.row_begin,    slice.row_count,  slice.column_begin,
          slice.column_count, slice.flat_begin, slice.count};
}

using PieceKey = std::tuple<std::string, State, Piece>;

// What `rank` writes, in file order: pieces that a lower rank holds too are left to that rank.
std::vector<std::pair<State, ParameterSlice>> slices_to_save(const StepProgram& program, Rank rank,
                                                             std::set<PieceKey>& taken) {
  std::vector<std::pair<State, ParameterSlice>> result;
  const Program& role = program.roles[index_of(role_of(program, rank))];
  for (const State state : kSaved) {
    for (const ParameterSlice& slice : parameter_slices(program, rank, state)) {
      if (taken.insert({role.parameters[slice.parameter].name, state, piece_of(slice)}).second) {
        result.emplace_back(state, slice);
      }
    }
  }
  return result;
}

std::string rank_file(std::int64_t rank) {
  return fmt::format("rank-{:05}.bin", rank);
}

// Values are stored as fp64 when masters are, else as fp32, so that resuming is bit-equal.
std::int64_t stored_width(const StepProgram& program) {
  return program.widths.master == 8 ? 8 : 4;
}

void write_rank_file(const std::string& path, RankExecutor& executor) {
  const StepProgram& program = executor.program();
  std::set<PieceKey> taken;
  std::vector<std::pair<State, ParameterSlice>> mine;
  for (std::uint32_t rank = 0; rank <= index_of(executor.rank()); ++rank) {
    mine = slices_to_save(program, Rank(rank), taken);
  }
  DurableFile file(path);
  for (const auto& [state, slice] : mine) {
    const std::vector<double> values = executor.read_slice(slice);
    if (stored_width(program) == 8) {
      file.append(values.data(), values.size() * sizeof(double));
    } else {
      const std::vector<float> narrow(values.begin(), values.end());
      file.append(narrow.data(), narrow.size() * sizeof(float));
    }
  }
  file.finish();
}

nlohmann::json manifest_of(const CheckpointStep& at, const StepProgram& program) {
  nlohmann::json parameters = nlohmann::json::object();
  std::set<PieceKey> taken;
  for (std::uint32_t rank = 0; rank < program.ranks; ++rank) {
    const Program& role = program.roles[index_of(role_of(program, Rank(rank)))];
    std::int64_t offset = 0;
    for (const auto& [state, slice] : slices_to_save(program, Rank(rank), taken)) {
      const Parameter& parameter = role.parameters[slice.parameter];
      nlohmann::json& entry = parameters[parameter.name];
      entry["rows"] = parameter.rows;
      entry["columns"] = parameter.columns;
      entry[std::string(to_string(state))].push_back({{"rank", rank},
                                                      {"offset", offset},
                                                      {"row_begin", slice.row_begin},
                                                      {"row_count", slice.row_count},
                                                      {"column_begin", slice.column_begin},
                                                      {"column_count", slice.column_count},
                                                      {"flat_begin", slice.flat_begin},
                                                      {"count", slice.count}});
      offset += slice.count;
    }
  }
  return {{"schema", "trireme.checkpoint/1"},
          {"step", at.step},
          {"sequences", at.sequences},
          {"seed", at.seed},
          {"layout", program.name},
          {"ranks", program.ranks},
          {"value_bytes", stored_width(program)},
          {"parameters", parameters}};
}

}  // namespace

void save_checkpoint(const std::string& folder, const CheckpointStep& at, RankExecutor& executor,
                     Coordinator& coordinator) {
  const fs::path root(folder);
  const std::string name = fmt::format("step-{}", at.step);
  const fs::path temporary = root / (name + ".partial");
  if (coordinator.rank() == Rank(0)) {
    std::error_code error;
    fs::remove_all(temporary, error);
    fs::create_directories(temporary, error);
    if (error) {
      throw Error(temporary.string(), "cannot create the checkpoint's folder: " + error.message());
    }
  }
  coordinator.barrier();
  write_rank_file((temporary / rank_file(index_of(executor.rank()))).string(), executor);
  coordinator.barrier();
  if (coordinator.rank() == Rank(0)) {
    const std::string manifest = manifest_of(at, executor.program()).dump(1);
    DurableFile file((temporary / "checkpoint.json").string());
    file.append(manifest.data(), manifest.size());
    file.finish();
    sync_folder(temporary);
    put_in_place(temporary, root / name);
    sync_folder(root);
    write_file_atomically((root / "latest").string(), name + "\n");
  }
  coordinator.barrier();
}

namespace {

struct SavedPiece {
  Piece piece;
  std::int64_t rank = 0;
  std::int64_t offset = 0;
};

struct SavedParameter {
  std::int64_t rows = 0, columns = 0;
  std::map<State, std::vector<SavedPiece>> states;
};

struct Saved {
  fs::path folder;
  CheckpointStep at;
  std::int64_t value_bytes = 0;
  std::map<std::string, SavedParameter> parameters;
  std::map<std::int64_t, std::ifstream> files;
};

SavedPiece read_piece(JsonReader& reader) {
  constexpr std::int64_t kLimit = std::int64_t{1} << 50;
  SavedPiece saved;
  saved.rank = reader.integer("rank", 0, kLimit);
  saved.offset = reader.integer("offset", 0, kLimit);
  saved.piece.row_begin = reader.integer("row_begin", 0, kLimit);
  saved.piece.row_count = reader.integer("row_count", 1, kLimit);
  saved.piece.column_begin = reader.integer("column_begin", 0, kLimit);
  saved.piece.column_count = reader.integer("column_count", 1, kLimit);
  saved.piece.flat_begin = reader.integer("flat_begin", 0, kLimit);
  saved.piece.count = reader.integer("count", 1, kLimit);
  reader.finish();
  return saved;
}

fs::path newest_step(const std::string& folder) {
  fs::path root(folder);
  if (fs::exists(root / "checkpoint.json")) {
    return root;
  }
  std::ifstream file(root / "latest");
  std::string name;
  if (!(file >> name) || !fs::exists(root / name / "checkpoint.json")) {
    throw Error(
        folder,
        "holds no checkpoint; --resume wants the folder given to --save, or one step-N of it");
  }
  return root / name;
}

Saved open_checkpoint(const std::string& folder) {
  Saved saved;
  saved.folder = newest_step(folder);
  const std::string path = (saved.folder / "checkpoint.json").string();
  const nlohmann::json json = read_json_file(path);
  JsonReader reader(json, path);
  if (reader.text("schema") != "trireme.checkpoint/1") {
    reader.fail("schema", "must be trireme.checkpoint/1");
  }
  saved.at.step = reader.integer("step", 0);
  saved.at.sequences = reader.integer("sequences", 0);
  saved.at.seed = reader.raw("seed").get<std::uint64_t>();
  reader.ignore("layout");
  const std::int64_t ranks = reader.integer("ranks", 1);
  saved.value_bytes = reader.integer("value_bytes", 4, 8);
  for (const auto& [name, entry] : reader.raw("parameters").items()) {
    JsonReader parameter(entry, reader.where("parameters") + "/" + name);
    SavedParameter& target = saved.parameters[name];
    target.rows = parameter.integer("rows", 1);
    target.columns = parameter.integer("columns", 1);
    for (const State state : kSaved) {
      for (JsonReader& piece : parameter.objects(std::string(to_string(state)))) {
        target.states[state].push_back(read_piece(piece));
      }
    }
    parameter.finish();
  }
  reader.finish();
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    saved.files.emplace(rank, std::ifstream(saved.folder / rank_file(rank), std::ios::binary));
  }
  return saved;
}

// Reads `count` values at element `offset` of a rank's file into `to`.
void read_values(Saved& saved, std::int64_t rank, std::int64_t offset, std::int64_t count,
                 double* to) {
  const auto file = saved.files.find(rank);
  bool good = file != saved.files.end();
  if (good) {
    file->second.seekg(offset * saved.value_bytes);
    if (saved.value_bytes == 8) {
      good = !!file->second.read(static_cast<char*>(static_cast<void*>(to)), count * 8);
    } else {
      std::vector<float> narrow(static_cast<std::size_t>(count));
      good = !!file->second.read(static_cast<char*>(static_cast<void*>(narrow.data())), count * 4);
      std::copy(narrow.begin(), narrow.end(), to);
    }
  }
  if (!good) {
    throw Error((saved.folder / rank_file(rank)).string(),
                "is missing or shorter than checkpoint.json says");
  }
}

// Fills the part of row `row`, columns [first, last), of which `piece` holds something, and marks
// it in `have`.
void fill_run(Saved& saved, const SavedPiece& from, std::int64_t row, std::int64_t first,
              std::int64_t last, double* to, std::vector<char>& have) {
  const Piece& p = from.piece;
  if (row < p.row_begin || row >= p.row_begin + p.row_count) {
    return;
  }
  const std::int64_t line = (row - p.row_begin) * p.column_count - p.column_begin - p.flat_begin;
  const std::int64_t begin = std::max({first, p.column_begin, -line});
  const std::int64_t end = std::min({last, p.column_begin + p.column_count, p.count - line});
  if (begin < end) {
    read_values(saved, from.rank, from.offset + line + begin, end - begin, to + (begin - first));
    std::fill(have.begin() + (begin - first), have.begin() + (end - first), char{1});
  }
}

std::vector<double> read_saved(Saved& saved, const Parameter& parameter, State state,
                               const ParameterSlice& wanted) {
  const std::vector<SavedPiece>& pieces = saved.parameters.at(parameter.name).states[state];
  std::vector<double> values(static_cast<std::size_t>(wanted.count));
  for (const SavedPiece& piece : pieces) {
    if (piece.piece == piece_of(wanted)) {
      read_values(saved, piece.rank, piece.offset, wanted.count, values.data());
      return values;
    }
  }
  std::int64_t done = 0;
  while (done < wanted.count) {
    const std::int64_t flat = wanted.flat_begin + done;
    const std::int64_t row = wanted.row_begin + flat / wanted.column_count;
    const std::int64_t first = wanted.column_begin + flat % wanted.column_count;
    const std::int64_t last =
        std::min(first + wanted.count - done, wanted.column_begin + wanted.column_count);
    std::vector<char> have(static_cast<std::size_t>(last - first), char{0});
    for (const SavedPiece& piece : pieces) {
      fill_run(saved, piece, row, first, last, values.data() + done, have);
    }
    if (std::find(have.begin(), have.end(), char{0}) != have.end()) {
      throw Error(saved.folder.string(), fmt::format("{} of {}: row {} is not whole",
                                                     to_string(state), parameter.name, row));
    }
    done += last - first;
  }
  return values;
}

}  // namespace

CheckpointStep load_checkpoint(const std::string& folder, RankExecutor& executor) {
  Saved saved = open_checkpoint(folder);
  const StepProgram& program = executor.program();
  for (const Parameter& parameter : executor.role().parameters) {
    const auto found = saved.parameters.find(parameter.name);
    if (found == saved.parameters.end()) {
      throw Error(saved.folder.string(),
                  fmt::format("has no parameter {}; it is another model's", parameter.name));
    }
    if (found->second.rows != parameter.rows || found->second.columns != parameter.columns) {
      throw Error(
          saved.folder.string(),
          fmt::format("{} is {} x {}, the model's is {} x {}", parameter.name, found->second.rows,
                      found->second.columns, parameter.rows, parameter.columns));
    }
  }
  for (const State state : {State::kWeight, State::kMaster, State::kMoment1, State::kMoment2}) {
    const State source =
        state == State::kWeight ? State::kMaster : state;  // weights are their masters, narrowed
    for (const ParameterSlice& slice : parameter_slices(program, executor.rank(), state)) {
      executor.write_slice(
          slice, read_saved(saved, executor.role().parameters[slice.parameter], source, slice));
    }
  }
  return saved.at;
}

}  // namespace trireme::runtime
