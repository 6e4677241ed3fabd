#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "core/error.h"
#include "core/files.h"
#include "runtime/checkpoint.h"
#include "runtime/checkpoint_pieces.h"
#include "runtime/rank_files.h"
#include "runtime/sockets.h"

namespace trireme::runtime {
namespace {

namespace fs = std::filesystem;

constexpr const char* kUntouched =
    "; this checkpoint is not complete, the previous one is untouched";

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
  FileWriter file(path, {path, kUntouched});
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

// Renames, or swaps with a checkpoint of the same step: at no moment is there none.
void put_in_place(const fs::path& temporary, const fs::path& place) {
  std::error_code error;
  if (fs::exists(place)) {
    if (::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, place.c_str(), RENAME_EXCHANGE) == 0) {
      sync_folder(place.parent_path().string());  // before the old one goes
      fs::remove_all(temporary, error);
      return;
    }
    if (errno != EINVAL && errno != ENOSYS) {
      throw Error(place.string(), std::string("cannot put the checkpoint in place: ") +
                                      std::strerror(errno) + kUntouched);
    }
    fs::remove_all(place, error);  // a file system without the swap
  }
  fs::rename(temporary, place, error);
  if (error) {
    throw Error(place.string(), "cannot put the checkpoint in place: " + error.message());
  }
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
  const std::string maker = coordinator.broadcast(host_identity());
  std::error_code unseen;
  if (!fs::exists(temporary, unseen)) {
    throw Error(
        temporary.string(),
        fmt::format("was made by rank 0 on {} and is not there on {}: --save wants a folder "
                    "that all hosts share",
                    maker, host_identity()) +
            kUntouched);
  }
  write_rank_file((temporary / rank_file(index_of(executor.rank()))).string(), executor);
  coordinator.barrier();
  if (coordinator.rank() == Rank(0)) {
    const std::string manifest = manifest_of(at, executor.program()).dump(1);
    const std::string path = (temporary / "checkpoint.json").string();
    FileWriter file(path, {path, kUntouched});
    file.append(manifest.data(), manifest.size());
    file.finish();
    sync_folder(temporary.string());
    put_in_place(temporary, root / name);
    sync_folder(root.string());
    write_file_atomically((root / "latest").string(), name + "\n");
  }
  coordinator.barrier();
}

}  // namespace trireme::runtime
