// The kernels a Compute op may name. This table is the contract between lowering and every backend:
// operand order, shapes, meaning. All matrices are row-major and contiguous. A backend computes
// exactly this, in any order of sums. Numbers that hold for every op stand in the program's
// `arithmetic` (core/arithmetic.h) and are written here by their names there.
//
// Symbols: T tokens on this rank (batch-major: token = sequence_index * S + position), H hidden, A
// query heads and K key/value heads on this rank, D head size, F inner size on this rank, R
// vocabulary rows on this rank, S sequence, B sequences of the micro-batch, N a count. Element type
// of each operand: c compute, m master, t token, n narrow, * any of c and m (the buffer says).
// Access: r read, w written whole, u read and written, a written when dim `accumulate` is 0 and
// added to when it is 1. "index(group)" is this rank's place in that group, 0 when the dim is -1.
// Operands never overlap unless the row says that two may be the same.
//
// kernel                  operands, in order                                     dims, in order
// ---------------------------------------------------------------------------------------------------------------
// embedding_forward       r tokens t[T]; r table c[R,H]; w y c[T,H]              T H R group
//     y[i] = embedding_multiplier * table[tokens[i] - index(group)*R], zeros when that row is not
//     here.
// embedding_backward      r tokens t[T]; r dy c[T,H]; a dtable m[R,H]            T H R group
// accumulate
//     dtable[tokens[i] - index(group)*R] += embedding_multiplier * dy[i]; accumulate 0 clears the
//     table first.
// position_forward        u y c[T,H]; r table c[P,H]                             T H S P group
// context
//     y[i] += table[position(index(group)*T + i)]: the group splits tokens under sequence
//     parallelism. position(j) = j mod S; with a context group of c ranks, of the tokens that its
//     rank has: context_position(j mod (S/c), S, c, index(context)) of core/program.h.
// position_backward       r dy c[T,H]; a dtable m[P,H]                           T H S P group
// context accumulate
//     dtable[position(index(group)*T + i)] += dy[i]; accumulate 0 clears the table first.
// matmul                  r a c; r b c; a c *[m,n]                               m n k transpose_a
// transpose_b
//                                                                                accumulate
//     c (+)= op(a) op(b); a is [m,k], or [k,m] when transpose_a; b is [k,n], or [n,k] when
//     transpose_b.
// bias_forward            u y c[T,N]; r bias c[N]                                T N
//     y[i,j] += bias[j].
// bias_backward           r dy c[T,N]; a dbias m[N]                              T N accumulate
//     dbias[j] (+)= sum_i dy[i,j].
// layer_norm_forward      r x c[T,H]; r weight c[H]; r bias c[H]; w y c[T,H];
//                         w mean m[T]; w rstd m[T]                               T H
//     y = (x - mean) * rstd * weight + bias, rstd = 1/sqrt(var + norm_epsilon), var the biased
//     variance. In every norm the weight is the operand, plus one with norm_plus_one.
// layer_norm_backward     r dy c[T,H]; r x c[T,H]; r weight c[H]; r mean m[T]; r rstd m[T]; r
// residual c[T,H];
//                         w dx c[T,H]; a dweight m[H]; a dbias m[H]              T H accumulate
//                         add_residual
//     dx = gradient of the norm, plus residual when add_residual is 1; residual and dx may be the
//     same, and so may dy and dx. With add_residual 0 the residual operand is the same as dy and is
//     not read as a residual.
// rms_norm_forward        r x c[T,H]; r weight c[H]; w y c[T,H]; w rstd m[T]     T H
//     y = x * rstd * weight, rstd = 1/sqrt(mean(x^2) + norm_epsilon).
// rms_norm_backward       r dy c[T,H]; r x c[T,H]; r weight c[H]; r rstd m[T]; r residual c[T,H]; w
// dx c[T,H];
//                         a dweight m[H]                                         T H accumulate
//                         add_residual
//     as layer_norm_backward.
// head_norm_forward       r x c[T,(A+2K)D]; r q_weight c[D]; r k_weight c[D]; w y c[T,(A+2K)D]; w
// rstd m[T,A+K]
//                                                                                T A K D
//     RMS norm over D of every q and k head; v is copied.
// head_norm_backward      r dy c[T,(A+2K)D]; r x; r q_weight; r k_weight; r rstd; w dx
// c[T,(A+2K)D];
//                         a dq_weight m[D]; a dk_weight m[D]                     T A K D accumulate
//     dx and dy may be the same.
// rotary_forward          u qkv c[T,(A+2K)D]                                     T A K D S table
// context
//     Each token's row is [q heads | k heads | v heads]. Turns the pairs of q and k that
//     rotary[table] names by position(i) * frequency, position as above, and scales them.
// rotary_backward         u dqkv c[T,(A+2K)D]                                    T A K D S table
// context
//     The inverse turn of dq and dk, scaled likewise.
// latent_heads_forward    r q c[T,A(N+R)]; r kv c[T,A(N+V)]; r key c[T,R]; w qkv
// c[T,A(2(N+R)+V)]                                                               T A N R V S table
//                                                                                context
//     Latent attention's heads: q and k heads are N elements as they came, of k the first N of each
//     of kv's heads, and R turned as by rotary_forward, of k the same `key` in every head; v heads
//     are the last V of kv's.
// latent_heads_backward   r dqkv; w dq; w dkv; w dkey                            T A N R V S table
//                                                                                context
//     dkey is the sum over these A heads.
// attention_forward       r qkv c[B*S,(A+K)D+KV]; w y c[B*S,A*V]; w lse m[B,A,S] B S A K D window V
//     Causal; scale attention_scale; query head a reads kv head a*K/A; window w > 0: a query sees
//     only the last w keys, itself included; V: size of a value head. lse = log-sum-exp of the
//     scaled, and capped, scores.
// attention_backward      r dy c[B*S,A*V]; r qkv; r y; r lse; w dqkv             B S A K D window V
// keys_out                r qkv c[T,(A+K)D+KV]; w kv c[T,K(D+V)]                 T A K D V
//     The keys and values of each token's row: what the context group gathers or passes on.
// keys_in                 r dkv c[T,K(D+V)]; u dqkv c[T,(A+K)D+KV]               T A K D V
//     Adds them into the row's places.
// rows_in_order           r x c[C,B*S/C,W]; w y c[B*S,W]                         B S W C inverse
//     Rows that C context ranks brought, in order of sequence and position; inverse: back.
// spread_heads            r x c[T,(A+K)D+KV]; w y c[C,T,((A+K)D+KV)/C]         T A K D C inverse V
//     Block i has the i-th of C equal parts of the q heads, the k heads and the v heads of each
//     row; inverse: the rows from the blocks.
// context_attention_forward r qkv c[B*S/C,(A+2K)D]; r kv c[B*S,2KD]; w y c[B*S/C,A*D]; w lse
// m[B,A,S/C]
//                                                                                B S A K D window
//                                                                                context C
//     As attention_forward, V = D, of this rank's queries, C ranks of the context group, over all
//     keys.
// context_attention_backward r dy c[B*S/C,A*D]; r qkv; r kv; r y; r lse; w dqkv c[B*S/C,(A+2K)D];
//                         w dkv c[B*S,2KD]                                       B S A K D window
//                                                                                context C
//     dqkv: of the queries; its keys' and values' places are cleared. dkv: of all keys, from these
//     queries.
//
// Attention round the ring of a context group: S tokens of each sequence here, keys and values of
// as many those of the member `step` places before this one (from the first on to the last). Of an
// earlier member all queries see the first half; of a later one the second half of the queries sees
// all; by context_position of core/program.h. Q of a sequence's queries see some: S or S/2.
// ring_attention_forward  r qkv c[B*S,(A+K)D+KV]; r kv c[B*S,K(D+V)]; w y c[B*S,A*V]; w lse
// m[B,A,S]
//                                                                                B S A K D V
//                                                                                context step
//     As attention_forward, of those queries over those keys: y's first B*Q rows, and lse's first
//     numbers as [B,A,Q].
// ring_merge              r y c[B*S,A*V]; r lse m[B,A,S]; a sum m[B*S,A*V]; a all m[B,A,S]
//                                                                                B S A V context
//                                                                                step accumulate
//     Attention over the keys so far becomes that over those of this step too; accumulate 0: these
//     are the first, of step 0.
// ring_attention_backward r dy c[B*S,A*V]; r qkv; r kv; r y; r lse; u dqkv c[B*S,(A+K)D+KV];
//                         w dkv c[B*S,K(D+V)]                                    B S A K D V
//                         context
//                                                                                step
//     y and lse over all keys. dqkv: of the queries, added to their places. dkv: of these keys,
//     from these queries; zeros where none sees them.
// swiglu_forward          r gate_up c[T,2F]; w y c[T,F]                          T F
//     Row = [gate | up]; y = act(gate) * up, act the program's activation, plain: silu.
// swiglu_backward         r dy c[T,F]; r gate_up c[T,2F]; w dgate_up c[T,2F]     T F
// gelu_forward            r x c[T,F]; w y c[T,F]                                 T F
//     y = act(x), plain: GELU's tanh form, 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).
// gelu_backward           r dy c[T,F]; r x c[T,F]; w dx c[T,F]                   T F
// add                     u y *[N]; r x *[N]                                     N
//     y += x (residuals, gradient accumulation).
// scale                   r x c[N]; w y c[N]                                     N
//     y = residual_multiplier * x; they may be the same.
// logit_statistics        r logits c[T,R]; r targets t[T]; w local_max m[T]; w sums m[2T]
//                                                                                T R V group
//     Here and below a logit is cap(logit_multiplier * the operand), cap(z) = logit_cap *
//     tanh(z / logit_cap), or z when logit_cap is 0.
//     Columns whose global index index(group)*R + j is V or more are padding and are left out.
//     sums[i] = sum_j exp(logits[i,j] - local_max[i]); sums[T+i] = the target's logit, 0 when it is
//     not here.
// statistics_rescale      r local_max m[T]; r global_max m[T]; u sums m[2T]      T
//     sums[i] *= exp(local_max[i] - global_max[i]); sums[T+i] stays.
// cross_entropy_loss      r global_max m[T]; r sums m[2T]; u loss m[1]           T denominator
//     loss += sum_i (global_max[i] + log(sums[i]) - sums[T+i]) / denominator.
// cross_entropy_backward  u logits c[T,R]; r global_max m[T]; r sums m[2T]; r targets t[T]
//                                                                                T R V group
//                                                                                denominator
//     In place: logits becomes (exp(logits - global_max)/sums - [column is target]) / denominator
//     times what a logit changes by its operand; padding columns 0.
// cast                    r x *[N]; w y *[N]                                     N
// zero                    w y *[N]                                               N
// squared_norm            r gradient m[N]; u sum m[1]                            N group
// replicated_from divisor
//                                                                                replicated_divisor
//     Element i is flat element j = index(group)*N + i of its unit; sum += gradient[i]^2 / (j <
//     replicated_from ? divisor : replicated_divisor): what several ranks hold alike counts once
//     after the all-reduce.
// clip_factor             r sum m[1]; w norm m[1]; w factor m[1]                 (none)
//     norm = sqrt(sum); factor = max_norm > 0 ? min(1, max_norm / (norm + 1e-6)) : 1; max_norm is
//     the run's.
// adamw                   r gradient m[N]; r factor m[1]; u master m[N]; u moment1 m[N]; u moment2
// m[N]
//                                                                                N
//     g = gradient * factor; AdamW of the run's learning rate, betas, epsilon, decoupled weight
//     decay (on every parameter) and step number with bias correction.
// adamw_cast              as adamw; then w weight c[N]                           N
//     The same, and weight = the new master.
//
// Routed experts. Slot i*k+j is the j-th choice of token i; rows sorted by expert hold the slots of
// expert 0 in order, then of expert 1 and so on. E experts in all or on this rank, k a token; M
// rows under an even load, and room for any number that `counts` t[P,E] say there are: P ranks that
// sent them.
//
// route_forward           r logits m[T,E]; r bias c[E]; w weights m[T,k]; w experts t[T,k]
//                                                                                T E k sigmoid
//                                                                                biased
//     Scores: softmax over E, or the sigmoid of each. Ranks: scores, plus bias when `biased` (else
//     any operand stands there). Of router_groups groups the router_groups_chosen best are left,
//     and of their experts those with the k largest ranks are chosen, the lower index where equal.
//     Weights are router_scale times the scores, over their sum when router_normalises.
// route_backward          r dweights m[T,k]; r weights m[T,k]; r experts t[T,k]; r logits m[T,E]; w
// dlogits c[T,E]                                                                 T E k sigmoid
// expert_places           r experts t[N]; w places t[N]; w counts t[E]           N E
//     The row of each slot when sorted by expert, and how many slots each expert has.
// permute_rows            r x c[T,H]; r places t[T,k]; w y c[T*k,H]              T k H
//     y[places[i,j]] = x[i].
// combine_rows            r y c[T*k,H]; r places t[T,k]; r weights m[T,k]; w x c[T,H]
//                                                                                T k H weighted
//     x[i] = sum_j weights[i,j] y[places[i,j]]; `weighted` 0: the plain sum.
// combine_backward        r dx c[T,H]; r y c[T*k,H]; r places; r weights; w dy c[T*k,H]; w dweights
// m[T,k]                                                                         T k H
// regroup_rows            r x c[*,H]; r counts t[P,E]; w y c[*,H]                M H P E inverse
//     From rows by sender, then expert, to rows by expert, then sender; inverse: back.
// expert_matmul           r a c; r b c; a c *; r counts t[P,E]                   m n k transpose_a
// transpose_b
//                                                                                accumulate P E
//     As matmul, one for each expert. The rows are sorted by expert: those of a and c, m under an
//     even load, of which expert e's are multiplied with b[e]; with transpose_a those of a and b, k
//     under an even load, of which expert e's give c[e].
//
// Products in 8 bits (element type n): E4M3, of gradients E5M2 (`gradient` 1), each tensor with one
// scale, which is a power of two: a number is what its code says times the scale.
//
// narrow_scale            r x c[N]; w scale m[1]                                 N gradient
//     The least power of two 2^e, e >= -64, with max |x| <= scale * the format's largest number;
//     NaN where x has one or an infinity.
// narrow_cast             r x c[M,K]; r scale m[1]; w y n[M,K]                   M K gradient
//     y = x / scale, to the nearest, ties to even; what is beyond the largest becomes the largest.
// narrow_turned           r x c[M,K]; r scale m[1]; w turned n[K,M]              M K gradient
//     The transpose of the same.
// narrow_both             r x c[M,K]; r scale m[1]; w y n[M,K]; w turned n[K,M]  M K gradient
// narrow_matmul           r a n; r a_scale m[1]; r b n; r b_scale m[1]; a c *[m,n]
//                                                                                m n k accumulate
//                                                                                gradient
//     c (+)= a_scale b_scale a b^T; a is [m,k], E5M2 where `gradient` says so, b is [n,k], E4M3.
// The same of routed experts, M rows under an even load: of the rows that came, one scale. In a
// transpose [K,W] each expert's columns begin at a whole multiple of 16, and are zero up to it.
// expert_narrow_scale     r x c[*,K]; r counts t[P,E]; w scale m[1]              M K gradient P E
// expert_narrow_cast      r x c[*,K]; r scale; r counts; w y n[*,K]              M K gradient P E
// expert_narrow_turned    r x c[*,K]; r scale; r counts; w turned n[K,W]         M K gradient P E
// expert_narrow_both      r x c[*,K]; r scale; r counts; w y n[*,K]; w turned n[K,W]
//                                                                                M K gradient P E
// expert_narrow_matmul    r a n; r a_scale m[1]; r b n; r b_scale m[1]; a c *; r counts t[P,E]
//                                                                                m n k summed
//                                                                                accumulate
//                                                                                gradient P E
//     As expert_matmul. Rows a [*,k] times the experts' b: [E*n,k] one below the other, or of a
//     gradient [n,E*k] side by side; `summed`: of transposes a [m,W] and b [n,W] the experts'
//     columns, k of all under an even load, give c[e].
// The same with delayed scaling: a scale stands before the tensor does, and its largest magnitude
// is noted for later steps.
// delayed_scales          u history m[N,T]; w scales m[4T]                       T N G
//     Of each of T tensors t, gradients from G on, at 4t (cuBLASLt's scales begin at 16 bytes): the
//     largest magnitude of the last N steps over the format's largest number; 1 where none is above
//     0 or one is infinite. Rows of the history then move down by one, zeros become the first.
// delayed_cast            r x c[M,K]; r scale m[1]; u largest m[1]; w y n[M,K]   M K gradient
//     As narrow_cast, and largest = max(largest, max |x|), infinity where x has a NaN.
// delayed_both            r x; r scale; u largest; w y n[M,K]; w turned n[K,M]   M K gradient
// expert_delayed_cast     r x c[*,K]; r scale; r counts; u largest; w y n[*,K]   M K gradient P E
// expert_delayed_both     r x; r scale; r counts; u largest; w y; w turned n[K,W]
//                                                                                M K gradient P E
//
// The same by blocks: all in E4M3, a scale, as narrow_scale finds it, for each 128 neighbours of a
// row, or for each 128 x 128 numbers (`square` 1). Extents are whole 128. Of x [M,K] row i's scales
// are scale[j,i] of [K/128,M]; the squares' are [M/128,W], W the next multiple of 4 from K/128 on,
// which are 0 beyond. A transpose has blocks, and scales, of its own rows.
// block_cast              r x c[M,K]; w y n[M,K]; w scale m                      M K square
// block_turned            r x c[M,K]; w turned n[K,M]; w turned_scale m          M K square
// block_both              r x; w y; w scale; w turned; w turned_scale            M K square
// block_matmul            r a n; r a_scale m; r b n; r b_scale m; a c *[m,n]     m n k accumulate
//                                                                                square
//     As narrow_matmul; b's blocks are squares where `square` says so, a's never.
// ---------------------------------------------------------------------------------------------------------------
// Work that is timed but not executed (models outside the table above: ALiBi, …). A runtime
// refuses a program that has one of them.
// modelled_matmul         any operands, as the op lists them                     m n k count wide
//                                                                                host
//     `wide`: 1: in 16 bits whatever the layers' precision, 2: fp32. `host`: thousandths of a
//     launch.
// modelled_attention      any operands                                           B heads kv_heads
// query_length
//                                                                                key_length qk_dim
//                                                                                v_dim backward
// modelled_pass           any operands                                           kernels state host
//     `state`: 1 over parameters and optimizer states, which stream at the memory's own rate.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace trireme {

enum class Kernel : std::uint8_t {
  kEmbeddingForward,
  kEmbeddingBackward,
  kPositionForward,
  kPositionBackward,
  kMatmul,
  kBiasForward,
  kBiasBackward,
  kLayerNormForward,
  kLayerNormBackward,
  kRmsNormForward,
  kRmsNormBackward,
  kHeadNormForward,
  kHeadNormBackward,
  kRotaryForward,
  kRotaryBackward,
  kLatentHeadsForward,
  kLatentHeadsBackward,
  kAttentionForward,
  kAttentionBackward,
  kKeysOut,
  kKeysIn,
  kRowsInOrder,
  kSpreadHeads,
  kContextAttentionForward,
  kContextAttentionBackward,
  kRingAttentionForward,
  kRingMerge,
  kRingAttentionBackward,
  kSwigluForward,
  kSwigluBackward,
  kGeluForward,
  kGeluBackward,
  kAdd,
  kScale,
  kLogitStatistics,
  kStatisticsRescale,
  kCrossEntropyLoss,
  kCrossEntropyBackward,
  kCast,
  kZero,
  kSquaredNorm,
  kClipFactor,
  kAdamw,
  kAdamwCast,
  kRouteForward,
  kRouteBackward,
  kExpertPlaces,
  kPermuteRows,
  kCombineRows,
  kCombineBackward,
  kRegroupRows,
  kExpertMatmul,
  kNarrowScale,
  kNarrowCast,
  kNarrowTurned,
  kNarrowBoth,
  kNarrowMatmul,
  kExpertNarrowScale,
  kExpertNarrowCast,
  kExpertNarrowTurned,
  kExpertNarrowBoth,
  kExpertNarrowMatmul,
  kDelayedScales,
  kDelayedCast,
  kDelayedBoth,
  kExpertDelayedCast,
  kExpertDelayedBoth,
  kBlockCast,
  kBlockTurned,
  kBlockBoth,
  kBlockMatmul,
  kModelledMatmul,
  kModelledAttention,
  kModelledPass,
};
inline constexpr int kKernelCount = static_cast<int>(Kernel::kModelledPass) + 1;

// Where columns of an expert's rows begin and end in a transpose in 8 bits: whole 16 codes, as
// cuBLASLt wants them; and how wide one is, with room for `rows` of so many experts.
inline constexpr std::int64_t kNarrowColumns = 16;
constexpr std::int64_t narrow_columns(std::int64_t rows) {
  return (rows + kNarrowColumns - 1) / kNarrowColumns * kNarrowColumns;
}
constexpr std::int64_t narrow_width(std::int64_t rows, std::int64_t experts) {
  return narrow_columns(rows) + experts * kNarrowColumns;
}

// Numbers that share a scale in products by blocks, in a row or on either side; and how many scales
// a matrix has.
inline constexpr std::int64_t kScaleBlock = 128;
constexpr std::int64_t square_row(std::int64_t columns) {
  return (columns / kScaleBlock + 3) / 4 * 4;
}
constexpr std::int64_t block_scales(std::int64_t rows, std::int64_t columns, bool square) {
  return square ? rows / kScaleBlock * square_row(columns) : rows * (columns / kScaleBlock);
}

// How a kernel touches one operand.
enum class Access : std::uint8_t { kRead, kWrite, kUpdate, kAccumulate };

struct KernelSignature {
  std::string_view name;                   // as in the table
  std::string_view access;                 // one letter of r w u a an operand; "*" = any operands
  std::span<const std::string_view> dims;  // names of the dims
};
const KernelSignature& signature_of(Kernel kernel);
std::optional<Kernel> find_kernel(std::string_view name);  // by the name in the table
// Throws Error: no kernel of that name.
Kernel parse_kernel(std::string_view name);
// The position of a dim in the kernel's list, e.g. "accumulate"; -1 when the kernel has none of
// that name.
int dim_index(Kernel kernel, std::string_view name);
// Kernels that only a simulator can time.
constexpr bool is_modelled(Kernel kernel) {
  return kernel >= Kernel::kModelledMatmul;
}

}  // namespace trireme
