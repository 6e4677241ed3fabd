// The step program: what each role of ranks does in one training step. It says what, never how
// long; walk, simulate and execute read it. Rules:
// - Ops stand in issue order, the order in which the host launches them. Ops on one stream run in
// that order; a wait
//   names an earlier op of the same program and holds until that op has ended (CUDA streams and
//   events).
// - A transient buffer exists from the first op (in issue order) that touches it until it is
// released: right after the
//   last op when stream 0 alone touched it, else just before the first op of stream 0 that is
//   ordered after all of them (so that memory may be given to the ops issued next without more
//   waits). A persistent buffer exists for the whole run, zeroed at the start of the run. One in
//   the host's memory is persistent, and only copies touch it.
// - Collectives of one group run in the same order on every member, each group and stream on its
// own communicator.
//   Messages of one (sender, receiver, channel) match in order; the tags of a matching pair are
//   equal.
// - Roles have one program each; ranks of a role differ only by their coordinates in groups
// (Operand::shard, group
//   dims).
// verify() (core/verify.h) checks all of it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/arithmetic.h"
#include "core/ids.h"
#include "core/kernels.h"
#include "core/units.h"

namespace trireme {

// Element types are abstract: compute is bf16 on a GPU and float or double on the CPU; master is
// fp32 or double. Narrow is a code of 8 bits everywhere (core/kernels.h).
enum class ElementType : std::uint8_t { kCompute, kMaster, kToken, kNarrow };
struct ElementWidths {
  std::int64_t compute = 2, master = 4, token = 4;  // bytes
  friend bool operator==(const ElementWidths&, const ElementWidths&) = default;
};

// One axis of a group: `degree` members `stride` ranks apart, repeated every `period` ranks (degree
// * stride, except for the first and last stage's group). A member's coordinate is rank % period /
// stride.
struct GroupAxis {
  std::int64_t degree = 1, stride = 1, period = 1;
  friend bool operator==(const GroupAxis&, const GroupAxis&) = default;
};
// Ranks that communicate, without listing them: the ranks that differ from the own one in these
// coordinates only. Place in the group = coordinates as a number, the first axis fastest.
struct Group {
  std::string name;  // "tensor", "sharded", "replica", "data", "all", "tied", …
  std::vector<GroupAxis> axes;
  friend bool operator==(const Group&, const Group&) = default;
};
inline constexpr GroupId kNoGroup = GroupId(0xffffffffU);

struct Buffer {
  std::uint32_t name = 0;         // index into Program::names
  std::int32_t layer = -1;        // -1: none
  std::int32_t micro_batch = -1;  // -1: none
  std::int64_t elements = 0;
  ElementType type = ElementType::kCompute;
  bool persistent = false;
  bool host = false;  // in the host's memory, pinned
  friend bool operator==(const Buffer&, const Buffer&) = default;
};

// `count` elements of a buffer from `offset`; with a shard group, from offset + place in the group
// * stride, or * count where stride is 0.
struct Operand {
  BufferId buffer{};
  GroupId shard = kNoGroup;
  std::int64_t offset = 0, count = 0, stride = 0;
  friend bool operator==(const Operand&, const Operand&) = default;
};

// What a Compute op does, shared by all ops that do the same. Flop as executed (causal attention:
// the half that is computed); traffic is bytes read plus written under the program's widths.
struct Work {
  Kernel kernel = Kernel::kZero;
  std::array<std::int64_t, 8> dims{};
  Flop flop;
  Bytes traffic;
  friend bool operator==(const Work&, const Work&) = default;
};

enum class Reduction : std::uint8_t { kSum, kMax };
// Operands of each kind: Compute as its kernel's row; a collective: input, output (the same operand
// when in place); Send, Recv: one; Copy: from, to.
struct Compute {
  std::uint32_t work = 0;  // index into Program::works
  friend bool operator==(const Compute&, const Compute&) = default;
};
struct AllReduce {  // output = reduction over the members' inputs; equal counts
  GroupId group{};
  Reduction reduction = Reduction::kSum;
  friend bool operator==(const AllReduce&, const AllReduce&) = default;
};
struct AllGather {  // output is the members' inputs in order; the input may be the own shard of the
                    // output
  GroupId group{};
  friend bool operator==(const AllGather&, const AllGather&) = default;
};
struct ReduceScatter {  // output is the own shard of the sum; it may be the own shard of the input
  GroupId group{};
  friend bool operator==(const ReduceScatter&, const ReduceScatter&) = default;
};
// Block i of the input goes to member i. Equal counts; or, with a row length, as many rows as the
// third operand says (token counts, an equal number of them a member: those of member i add up to
// block i's rows), and the fourth says likewise what comes. Then one of input and output has what
// an even load moves, the other room for more; rows follow each other without gaps.
struct AllToAll {
  GroupId group{};
  std::int64_t row = 0;  // elements of a row; 0: equal blocks
  friend bool operator==(const AllToAll&, const AllToAll&) = default;
};
struct Broadcast {  // from the member `root`
  GroupId group{};
  std::uint32_t root = 0;
  friend bool operator==(const Broadcast&, const Broadcast&) = default;
};
struct Shift {  // the input goes to the next member, the last one's to the first
  GroupId group{};
  friend bool operator==(const Shift&, const Shift&) = default;
};
// To and from rank own + peer. A send ends when the receiver has it (rendezvous).
struct Send {
  std::int32_t peer = 0;
  std::uint16_t channel = 0;
  std::uint32_t tag = 0;
  friend bool operator==(const Send&, const Send&) = default;
};
struct Recv {
  std::int32_t peer = 0;
  std::uint16_t channel = 0;
  std::uint32_t tag = 0;
  friend bool operator==(const Recv&, const Recv&) = default;
};
struct Copy {
  friend bool operator==(const Copy&, const Copy&) = default;
};
using OpKind = std::variant<Compute, AllReduce, AllGather, ReduceScatter, AllToAll, Broadcast,
                            Shift, Send, Recv, Copy>;

enum class Phase : std::uint8_t {
  kForward,
  kRecompute,
  kBackward,
  kWeightGradient,
  kParameterGather,
  kGradientReduce,
  kOptimizer,
};

// Where an op comes from: the key by which traces of the same plan are joined, together with the
// op's name.
struct Origin {
  Phase phase = Phase::kForward;
  std::int16_t chunk = -1;        // virtual pipeline chunk on this rank; -1: none
  std::int32_t layer = -1;        // of the model; -1: none
  std::int32_t micro_batch = -1;  // -1: none
  friend bool operator==(const Origin&, const Origin&) = default;
};

struct IndexRange {
  std::uint32_t first = 0, count = 0;
  friend bool operator==(const IndexRange&, const IndexRange&) = default;
};

struct Op {
  OpKind kind;
  IndexRange waits;     // in Program::waits
  IndexRange operands;  // in Program::operands
  Origin origin;
  std::uint32_t name = 0;  // index into Program::names: "qkv", "mlp_down", "gradients", …
  StreamId stream{};
  friend bool operator==(const Op&, const Op&) = default;
};

// ---- parameters
// -----------------------------------------------------------------------------------------------------
enum class State : std::uint8_t { kWeight, kMaster, kMoment1, kMoment2, kGradient };
inline constexpr int kStateCount = 5;
// Over StepProgram::tensor, of an expert over StepProgram::expert_tensor.
enum class Split : std::uint8_t { kNone, kRows, kColumns };

// A trained tensor; vectors have one column. Its local part (rows or columns split evenly over the
// tensor group) lies row-major in its unit's flat list of elements.
struct Parameter {
  std::string name;                    // "layers.3.attention.q.weight": the same in every layout
  std::int64_t rows = 0, columns = 1;  // of the whole tensor, without padding
  std::int64_t local_rows = 0,
               local_columns = 1;  // of the part here; padding included (vocabulary)
  Split split = Split::kNone;
  std::uint32_t unit = 0;
  std::int64_t offset = 0;  // of the local part in the unit's elements
  // Of one expert's part of a tensor of all experts, one below the other: the rows before it on the
  // first member of StepProgram::expert, and between its like on neighbouring members; 0: no
  // expert's.
  std::int64_t expert_first = 0, expert_step = 0;
  friend bool operator==(const Parameter&, const Parameter&) = default;
};
// Where a unit keeps one state. Not kept between steps: operand.count 0. Sharded: this rank holds
// flat elements [i * count, (i + 1) * count), i its place in the unit's shard group; else all of
// them.
struct StateStorage {
  Operand operand;
  bool sharded = false;
  friend bool operator==(const StateStorage&, const StateStorage&) = default;
};
// Parameters that are gathered, reduced and stepped together, as one flat list of elements (padded
// at the end).
struct ParameterUnit {
  std::string name;
  std::int64_t elements = 0;  // padded to a multiple of the shard group
  GroupId shard = kNoGroup;
  std::array<StateStorage, kStateCount> states{};  // by State
  friend bool operator==(const ParameterUnit&, const ParameterUnit&) = default;
};

// One role's program.
struct Program {
  std::vector<std::string> names;
  std::vector<std::string> streams;  // "compute", "tensor", "gather", "reduce", …
  std::vector<Buffer> buffers;
  std::vector<Operand> operands;
  std::vector<Work> works;
  std::vector<OpId> waits;
  std::vector<Op> ops;
  std::vector<Parameter> parameters;
  std::vector<ParameterUnit> units;
  // Filled by the runtime before every step, read by it afterwards; count 0 where this role has
  // none.
  Operand tokens, targets;  // token[micro_batches * micro_batch * sequence]
  Operand loss;             // master[1]: mean over the global batch, after the last op
  Operand gradient_norm;    // master[1]: before clipping
  friend bool operator==(const Program&, const Program&) = default;
};

// The batch a step consumes: rank's micro-batch i is rows [(d * micro_batches + i) * micro_batch, +
// micro_batch) of the global batch, d its place in `data`. Row r's tokens are positions 0 ..
// sequence-1, its targets 1 .. sequence; a rank of a `context` group has its own of these
// (context_position).
struct Batch {
  std::int64_t sequence = 0, micro_batch = 0, micro_batches = 0, vocabulary = 0;
  friend bool operator==(const Batch&, const Batch&) = default;
};

struct StepProgram {
  std::string name;  // of the plan, for people
  std::int64_t ranks = 1;
  // Role of a rank = its coordinate on the stage axis.
  GroupAxis stages;
  ElementWidths widths;
  Batch batch;
  Arithmetic arithmetic;
  std::vector<Group> groups;
  GroupId tensor = kNoGroup, data = kNoGroup;  // kNoGroup: of one rank
  // Ranks that hold different experts, and those that share one.
  GroupId expert = kNoGroup, expert_tensor = kNoGroup;
  GroupId context = kNoGroup;  // ranks that share each sequence
  std::vector<Program> roles;
  friend bool operator==(const StepProgram&, const StepProgram&) = default;
};

// ---- arithmetic
// -----------------------------------------------------------------------------------------------------
std::int64_t width_of(const ElementWidths& widths, ElementType type);  // bytes
Bytes size_of(const StepProgram& program, const Buffer& buffer);
Bytes size_of(const StepProgram& program, const Program& role, const Operand& operand);
std::int64_t group_size(const Group& group);
// Place of a rank in its group of this kind; 0 for kNoGroup.
std::int64_t index_in_group(const StepProgram& program, GroupId group, Rank rank);
// Where in the sequence the `index`th of the tokens lies that member `place` of `ranks` has: of 2 *
// ranks equal chunks it has numbers `place` and 2 * ranks - 1 - place, so that causal attention is
// the same work on each.
constexpr std::int64_t context_position(std::int64_t index, std::int64_t sequence,
                                        std::int64_t ranks, std::int64_t place) {
  const std::int64_t chunk = sequence / (2 * ranks);
  return index < chunk ? place * chunk + index : (2 * ranks - 2 - place) * chunk + index;
}
// The first member of the rank's group: the same for all its members, and for no others. Itself for
// kNoGroup.
Rank first_member(const StepProgram& program, GroupId group, Rank rank);
// Members of the rank's group in order; itself for kNoGroup.
std::vector<Rank> members_of(const StepProgram& program, GroupId group, Rank rank);
RoleIndex role_of(const StepProgram& program, Rank rank);
// First element of an operand for this rank.
std::int64_t resolved_offset(const StepProgram& program, const Operand& operand, Rank rank);

// Ops [first, last] in issue order during which each buffer exists, by the rule above; {1, 0} for
// one that no op touches.
struct Lifetime {
  std::uint32_t first = 1, last = 0;
  friend bool operator==(const Lifetime&, const Lifetime&) = default;
};
std::vector<Lifetime> lifetimes(const Program& role);
// Bytes of the device alive at the worst op in issue order: persistent buffers, and transient ones
// during their lifetimes; beside them what lies on the host.
struct Liveness {
  Bytes persistent, peak, host;
  OpId peak_op{};
};
Liveness liveness(const StepProgram& program, const Program& role);

// What a rank holds of one parameter in one state: elements [flat_begin, flat_begin + count) of the
// row-major block (row_begin, row_count, column_begin, column_count) of the whole tensor lie in
// `buffer` from `offset`. Rows that are padding are in no slice.
struct ParameterSlice {
  std::uint32_t parameter = 0;  // in the role's table
  std::int64_t row_begin = 0, row_count = 0, column_begin = 0, column_count = 0;
  std::int64_t flat_begin = 0, count = 0;
  BufferId buffer{};
  std::int64_t offset = 0;
};
std::vector<ParameterSlice> parameter_slices(const StepProgram& program, Rank rank, State state);

std::string_view to_string(ElementType type);  // compute master token narrow
std::string_view to_string(
    Phase phase);  // forward recompute backward weight_gradient parameter_gather …
std::string_view to_string(State state);  // weight master moment1 moment2 gradient
std::string_view kind_name(
    const OpKind& kind);  // compute all_reduce all_gather reduce_scatter all_to_all …
// "L5.mlp_up mb3", "embedding mb0", "L5.gradients".
std::string op_label(const Program& role, const Op& op);
std::string buffer_label(const Program& role, const Buffer& buffer);

}  // namespace trireme
