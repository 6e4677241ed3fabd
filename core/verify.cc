#include "core/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/happens_before.h"
#include "core/rendezvous.h"
#include "core/step_order.h"

namespace trireme {
namespace {

constexpr std::size_t kMaxProblems = 20;

// r, w or u (read and written) of each operand of an op, by position.
char access_of(const Program& role, const Op& op, std::uint32_t position) {
  if (const auto* compute = std::get_if<Compute>(&op.kind)) {
    const Work& work = role.works[compute->work];
    const KernelSignature& signature = signature_of(work.kernel);
    if (signature.access == "*") {
      return position + 1 == op.operands.count ? 'w' : 'r';
    }
    const char access = signature.access[position];
    const int accumulate = dim_index(work.kernel, "accumulate");
    const bool adds = accumulate >= 0 && work.dims[static_cast<std::size_t>(accumulate)] != 0;
    return access != 'a' ? access : adds ? 'u' : 'w';
  }
  if (std::holds_alternative<Send>(op.kind)) {
    return 'r';
  }
  if (std::holds_alternative<Recv>(op.kind)) {
    return 'w';
  }
  return position == 1 ? 'w' : 'r';
}

class RoleVerifier {
 public:
  RoleVerifier(const StepProgram& program, std::uint32_t role_index,
               std::vector<std::string>& problems)
      : program_(program),
        role_index_(role_index),
        role_(program.roles[role_index]),
        problems_(problems) {}

  void run() {
    for (std::uint32_t i = 0; i < role_.ops.size(); ++i) {
      check_shape(i);
    }
    if (!problems_.empty()) {
      return;  // what follows indexes freely
    }
    check_uses();
  }

 private:
  void problem(std::uint32_t op, const std::string& text) {
    if (problems_.size() < kMaxProblems) {
      problems_.push_back(fmt::format("role {} op {} ({}): {}", role_index_, op,
                                      op_label(role_, role_.ops[op]), text));
    }
  }

  void check_shape(std::uint32_t i) {
    const Op& op = role_.ops[i];
    if (op.name >= role_.names.size() || index_of(op.stream) >= role_.streams.size() ||
        op.waits.first + op.waits.count > role_.waits.size() ||
        op.operands.first + op.operands.count > role_.operands.size()) {
      problems_.push_back(fmt::format("role {} op {}: an index is out of range", role_index_, i));
      return;
    }
    for (std::uint32_t w = op.waits.first; w < op.waits.first + op.waits.count; ++w) {
      if (index_of(role_.waits[w]) >= i) {
        problem(i, fmt::format("waits for op {}, which is not earlier", index_of(role_.waits[w])));
      }
    }
    check_operand_count(i);
    for (std::uint32_t k = 0; k < op.operands.count; ++k) {
      check_operand(i, role_.operands[op.operands.first + k]);
    }
    const GroupId group = group_of(op.kind);
    if (group != kNoGroup && index_of(group) >= program_.groups.size()) {
      problem(i, "its group does not exist");
    } else if (group != kNoGroup) {
      check_counts(i, group_size(program_.groups[index_of(group)]));
    }
  }

  // A router's experts stand in equal groups, of which the chosen ones hold enough of them.
  void check_router(std::uint32_t i, const Work& work) {
    const std::int64_t groups = program_.arithmetic.router_groups;
    if (work.kernel != Kernel::kRouteForward || groups == 0) {
      return;
    }
    const std::int64_t experts = work.dims[1];
    const std::int64_t chosen = program_.arithmetic.router_groups_chosen;
    if (groups < 0 || experts % groups != 0 || chosen < 1 || chosen > groups ||
        work.dims[2] > chosen * (experts / groups)) {
      problem(i, fmt::format("cannot choose {} of {} experts from {} of {} groups", work.dims[2],
                             experts, chosen, groups));
    }
  }

  void check_operand_count(std::uint32_t i) {
    const Op& op = role_.ops[i];
    std::uint32_t expected = 2;
    if (const auto* compute = std::get_if<Compute>(&op.kind)) {
      if (compute->work >= role_.works.size()) {
        problem(i, "its work does not exist");
        return;
      }
      check_router(i, role_.works[compute->work]);
      const std::string_view access = signature_of(role_.works[compute->work].kernel).access;
      expected = access == "*" ? op.operands.count : static_cast<std::uint32_t>(access.size());
    } else if (std::holds_alternative<Send>(op.kind) || std::holds_alternative<Recv>(op.kind)) {
      expected = 1;
    } else if (is_ragged(op)) {
      expected = 4;
    }
    if (op.operands.count != expected) {
      problem(i, fmt::format("has {} operands instead of {}", op.operands.count, expected));
    }
  }

  void check_operand(std::uint32_t i, const Operand& operand) {
    if (index_of(operand.buffer) >= role_.buffers.size() ||
        (operand.shard != kNoGroup && index_of(operand.shard) >= program_.groups.size())) {
      problem(i, "an operand's buffer or group does not exist");
      return;
    }
    const Buffer& buffer = role_.buffers[index_of(operand.buffer)];
    const std::int64_t parts =
        operand.shard == kNoGroup ? 1 : group_size(program_.groups[index_of(operand.shard)]);
    // By what is left of the buffer: a program from a file may name places beyond 64 bits.
    const bool inside = operand.offset >= 0 && operand.offset <= buffer.elements;
    const std::int64_t left = inside ? buffer.elements - operand.offset : 0;
    const std::int64_t others = std::max<std::int64_t>(parts, 1) - 1;
    const std::int64_t stride = operand.stride > 0 ? operand.stride : operand.count;
    if (operand.count <= 0 || operand.stride < 0 || left < operand.count ||
        (others > 0 && stride > (left - operand.count) / others)) {
      problem(i, fmt::format("an operand leaves buffer {}", buffer_label(role_, buffer)));
    }
    if (buffer.host && !(buffer.persistent && std::holds_alternative<Copy>(role_.ops[i].kind))) {
      problem(i, fmt::format("touches buffer {} on the host; copies alone do, and it is persistent",
                             buffer_label(role_, buffer)));
    }
  }

  static bool is_ragged(const Op& op) {
    const auto* exchange = std::get_if<AllToAll>(&op.kind);
    return exchange != nullptr && exchange->row != 0;
  }

  // Both whole rows, one of them what an even load moves; counts for every member.
  void check_ragged(std::uint32_t i, std::int64_t ranks) {
    const Op& op = role_.ops[i];
    if (op.operands.count != 4) {
      return;  // said already
    }
    const std::int64_t row = std::get<AllToAll>(op.kind).row;
    const auto operand = [&](std::uint32_t k) -> const Operand& {
      return role_.operands[op.operands.first + k];
    };
    if (row < 0 || operand(0).count % row != 0 || operand(1).count % row != 0) {
      problem(i, fmt::format("{} elements in and {} out are not whole rows of {}", operand(0).count,
                             operand(1).count, row));
    }
    for (const std::uint32_t k : {2U, 3U}) {
      const bool tokens = index_of(operand(k).buffer) < role_.buffers.size() &&
                          role_.buffers[index_of(operand(k).buffer)].type == ElementType::kToken;
      if (!tokens || operand(k).count % ranks != 0) {
        problem(i, fmt::format("its operand {} is not counts of each of {} ranks", k, ranks));
      }
    }
  }

  void check_counts(std::uint32_t i, std::int64_t ranks) {
    const Op& op = role_.ops[i];
    if (is_ragged(op)) {
      check_ragged(i, ranks);
      return;
    }
    if (op.operands.count != 2) {
      return;
    }
    const Operand& from = role_.operands[op.operands.first];
    const Operand& to = role_.operands[op.operands.first + 1];
    if (std::holds_alternative<Shift>(op.kind) && from.buffer == to.buffer) {
      problem(i, "passes on a buffer while the same one is filled");
    }
    const std::int64_t in = from.count;
    const std::int64_t out = to.count;
    const bool gathers = std::holds_alternative<AllGather>(op.kind);
    const bool scatters = std::holds_alternative<ReduceScatter>(op.kind);
    const auto is_share = [ranks](std::int64_t part, std::int64_t whole) {
      return ranks > 0 && whole % ranks == 0 && whole / ranks == part;
    };
    if (gathers ? !is_share(in, out) : scatters ? !is_share(out, in) : in != out) {
      problem(i, fmt::format("{} elements in and {} out do not fit {} ranks", in, out, ranks));
    }
  }

  struct Use {
    OpId writer{};
    bool written = false, touched = false;
    std::vector<OpId> readers;  // since the last write, at most the last of each stream
  };

  // What of a buffer the uses touch: all of it; on the host the parts that copies name, since other
  // parts may be on their way at once.
  struct Part {
    std::int64_t begin = 0, end = 0;
    Use use;
    [[nodiscard]] bool meets(const Part& other) const {
      return begin < other.end && other.begin < end;
    }
  };

  [[nodiscard]] Part part_of(const Operand& operand) const {
    const Buffer& buffer = role_.buffers[index_of(operand.buffer)];
    return buffer.host && operand.shard == kNoGroup
               ? Part{operand.offset, operand.offset + operand.count, {}}
               : Part{0, std::max<std::int64_t>(buffer.elements, 1), {}};
  }

  void check_uses() {
    const HappensBefore order(role_);
    std::vector<std::vector<Part>> parts(role_.buffers.size());
    const std::vector<OpId> released = releases();
    for (std::uint32_t i = 0; i < role_.ops.size(); ++i) {
      const Op& op = role_.ops[i];
      for (std::uint32_t k = 0; k < op.operands.count; ++k) {
        const Operand& operand = role_.operands[op.operands.first + k];
        const Part touched = part_of(operand);
        std::vector<Part>& known = parts[index_of(operand.buffer)];
        if (known.empty()) {
          known.push_back(touched);
        }
        for (const Part& part : known) {
          if (part.meets(touched)) {
            check_use(order, i, part.use, role_.buffers[index_of(operand.buffer)],
                      access_of(role_, op, k), released[i]);
          }
        }
      }
      for (std::uint32_t k = 0; k < op.operands.count; ++k) {
        const Operand& operand = role_.operands[op.operands.first + k];
        record_use(i, use_of(part_of(operand), parts[index_of(operand.buffer)]),
                   access_of(role_, op, k));
      }
    }
  }

  static Use& use_of(const Part& touched, std::vector<Part>& known) {
    const auto found = std::ranges::find_if(known, [&](const Part& part) {
      return part.begin == touched.begin && part.end == touched.end;
    });
    return found != known.end() ? found->use : known.emplace_back(touched).use;
  }

  // For every op the latest op of stream 0, issued before it, after which some memory was released.
  [[nodiscard]] std::vector<OpId> releases() const {
    // A buffer of stream 0 alone is released by its last op; another by the next op of stream 0,
    // which waited for it.
    std::vector<bool> elsewhere(role_.buffers.size(), false);
    for (const Op& op : role_.ops) {
      for (std::uint32_t k = 0; k < op.operands.count; ++k) {
        const std::uint32_t b = index_of(role_.operands[op.operands.first + k].buffer);
        elsewhere[b] = elsewhere[b] || index_of(op.stream) != 0;
      }
    }
    const std::vector<Lifetime> lives = lifetimes(role_);
    std::vector<bool> ends(role_.ops.size(), false);
    std::vector<bool> ends_before_next(role_.ops.size(), false);
    for (std::size_t b = 0; b < lives.size(); ++b) {
      if (!role_.buffers[b].persistent && lives[b].first <= lives[b].last) {
        (elsewhere[b] ? ends_before_next : ends)[lives[b].last] = true;
      }
    }
    constexpr OpId kNone = OpId(0xffffffffU);
    std::vector<OpId> result(role_.ops.size(), kNone);
    OpId latest = kNone;
    bool pending = false;
    for (std::uint32_t i = 0; i < role_.ops.size(); ++i) {
      result[i] = latest;
      if (index_of(role_.ops[i].stream) == 0 && (pending || ends[i])) {
        latest = static_cast<OpId>(i);
        pending = false;
      }
      pending = pending || ends_before_next[i];
    }
    return result;
  }

  void check_use(const HappensBefore& order, std::uint32_t i, const Use& use, const Buffer& buffer,
                 char access, OpId released) {
    const auto id = static_cast<OpId>(i);
    const std::string name = use.touched || buffer.persistent ? "" : buffer_label(role_, buffer);
    if (access != 'w' && !use.written && !buffer.persistent) {
      problem(i, fmt::format("reads {} before anything wrote it", buffer_label(role_, buffer)));
    }
    if (use.written && !order.ordered(role_, use.writer, id)) {
      problem(i, fmt::format("is not ordered after op {}, which writes {}", index_of(use.writer),
                             buffer_label(role_, buffer)));
    }
    if (access != 'r') {
      for (const OpId reader : use.readers) {
        if (!order.ordered(role_, reader, id)) {
          problem(i, fmt::format("is not ordered after op {}, which reads {}", index_of(reader),
                                 buffer_label(role_, buffer)));
        }
      }
    }
    if (!use.touched && !buffer.persistent && released != OpId(0xffffffffU) &&
        !order.ordered(role_, released, id)) {
      problem(i, fmt::format("may be given memory for {} that op {} still uses", name,
                             index_of(released)));
    }
  }

  void record_use(std::uint32_t i, Use& use, char access) {
    const auto id = static_cast<OpId>(i);
    use.touched = true;
    if (access != 'r') {
      use.written = true;
      use.writer = id;
      use.readers.clear();
      return;
    }
    std::erase_if(use.readers, [&](OpId reader) {
      return role_.ops[index_of(reader)].stream == role_.ops[i].stream;
    });
    use.readers.push_back(id);
  }

  const StepProgram& program_;
  std::uint32_t role_index_;
  const Program& role_;
  std::vector<std::string>& problems_;
};

void check_groups(const StepProgram& program, std::vector<std::string>& problems) {
  for (const Group& group : program.groups) {
    for (const GroupAxis& axis : group.axes) {
      if (axis.degree < 1 || axis.stride < 1 ||
          axis.period < axis.degree * axis.stride - axis.stride + 1 ||
          program.ranks % axis.period != 0) {
        problems.push_back(
            fmt::format("group {}: an axis does not fit {} ranks", group.name, program.ranks));
      }
    }
  }
  const bool stages_fit =
      program.stages.degree == static_cast<std::int64_t>(program.roles.size()) &&
      program.stages.stride >= 1 && program.stages.period >= 1 &&
      program.ranks % program.stages.period == 0;
  if (!stages_fit) {
    problems.push_back(
        fmt::format("{} roles on a stage axis of {}", program.roles.size(), program.stages.degree));
  }
}

}  // namespace

std::vector<std::string> verify(const StepProgram& program) {
  std::vector<std::string> problems;
  check_groups(program, problems);
  if (!problems.empty()) {
    return problems;
  }
  for (std::uint32_t r = 0; r < program.roles.size(); ++r) {
    RoleVerifier(program, r, problems).run();
  }
  if (!problems.empty()) {
    return problems;
  }
  const Rendezvous rendezvous = match_ops(program);
  problems = rendezvous.problems;
  std::vector<RoleOp> stuck;
  if (!visit_in_order(
          program, rendezvous, [](const RoleOp*, const RoleOp*) {}, &stuck)) {
    for (const RoleOp& where : stuck) {
      if (problems.size() < kMaxProblems) {
        const Program& role = program.roles[index_of(where.role)];
        problems.push_back(fmt::format("role {} never gets to op {} ({})", index_of(where.role),
                                       index_of(where.op),
                                       op_label(role, role.ops[index_of(where.op)])));
      }
    }
  }
  return problems;
}

}  // namespace trireme
