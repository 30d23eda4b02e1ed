#include "model/trace_context.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include <fmt/format.h>

#include "base/percent.h"
#include "base/strings.h"

namespace muster::model {
namespace {

// Positions in "00-<trace id>-<span id>-<flags>".
constexpr std::size_t kTraceId = 3;
constexpr std::size_t kSpanId = 36;
constexpr std::size_t kFlags = 53;
constexpr std::size_t kLength = 55;
constexpr std::size_t kLongestState = 512;
constexpr std::uint8_t kSampled = 1;

// The standard allows lower-case digits only.
std::optional<int> digit_of(char c) {
  return c >= 'A' && c <= 'F' ? std::nullopt : base::hex_digit(c);
}

template <std::size_t N>
bool read_hex(std::string_view text, std::array<std::uint8_t, N>& bytes) {
  for (std::size_t i = 0; i < N; ++i) {
    const auto high = digit_of(text[2 * i]);
    const auto low = digit_of(text[2 * i + 1]);
    if (!high || !low) return false;
    bytes[i] = static_cast<std::uint8_t>(*high * 16 + *low);
  }
  return true;
}

template <std::size_t N>
bool is_zero(const std::array<std::uint8_t, N>& bytes) {
  return std::ranges::all_of(bytes, [](std::uint8_t byte) { return byte == 0; });
}

bool is_good_state(std::string_view state) {
  return state.size() <= kLongestState &&
         std::ranges::all_of(state, [](char c) { return c == '\t' || (c >= ' ' && c <= '~'); });
}

// The message does not show the value, because values of a job's variables must not get into launcherd's log.
base::Status wrong_parent(std::string_view why) {
  return base::invalid_argument("TRACEPARENT: {}; it must be 00-<32 hex digits>-<16 hex digits>-<2 hex digits>", why);
}

// FNV-1a, then the finalizer of SplitMix64, so that texts which differ in one digit differ in half of the bits.
std::uint64_t hash_of(std::uint64_t seed, std::initializer_list<std::string_view> parts) {
  constexpr std::uint64_t kPrime = 0x100000001b3;
  std::uint64_t hash = 0xcbf29ce484222325 ^ seed;
  for (const std::string_view part : parts) {
    for (const char c : part) hash = (hash ^ static_cast<std::uint8_t>(c)) * kPrime;
    hash = (hash ^ 0x100) * kPrime;  // the boundary between two parts
  }
  hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9;
  hash = (hash ^ (hash >> 27)) * 0x94d049bb133111eb;
  hash ^= hash >> 31;
  return hash == 0 ? 1 : hash;  // ids of zeros are invalid
}

void put_bytes(std::uint64_t value, std::uint8_t* bytes) {
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<std::uint8_t>(value >> (56 - 8 * i));
}

template <std::size_t N>
std::string_view bytes_of(const std::array<std::uint8_t, N>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), N};
}

}  // namespace

base::Result<TraceContext> parse_trace_context(std::string_view parent, std::string_view state) {
  TraceContext context;
  std::array<std::uint8_t, 1> version{};
  std::array<std::uint8_t, 1> flags{};
  if (parent.size() < kLength) return wrong_parent("too short");
  if (!read_hex(parent, version) || version[0] == 0xff) return wrong_parent("unknown version");
  if (parent.size() > kLength && (version[0] == 0 || parent[kLength] != '-')) return wrong_parent("too long");
  if (parent[kTraceId - 1] != '-' || parent[kSpanId - 1] != '-' || parent[kFlags - 1] != '-') {
    return wrong_parent("a '-' is missing");
  }
  if (!read_hex(parent.substr(kTraceId), context.trace_id) || is_zero(context.trace_id)) {
    return wrong_parent("the trace id is invalid");
  }
  if (!read_hex(parent.substr(kSpanId), context.span_id) || is_zero(context.span_id)) {
    return wrong_parent("the span id is invalid");
  }
  if (!read_hex(parent.substr(kFlags), flags)) return wrong_parent("the flags are invalid");
  context.is_sampled = (flags[0] & kSampled) != 0;
  if (is_good_state(state)) context.state = state;
  return context;
}

std::string traceparent(const TraceContext& context) {
  return fmt::format("00-{:02x}-{:02x}-0{}", fmt::join(context.trace_id, ""), fmt::join(context.span_id, ""),
                     context.is_sampled ? 1 : 0);
}

base::Result<std::optional<TraceContext>> inherited_trace(const base::Environment& environment) {
  const auto parent = environment.get("TRACEPARENT");
  if (!parent || parent->empty()) return std::optional<TraceContext>();
  MUSTER_ASSIGN_OR_RETURN(TraceContext context,
                          parse_trace_context(*parent, environment.get("TRACESTATE").value_or("")));
  return std::optional(std::move(context));
}

TraceContext trace_of_job(const std::optional<TraceContext>& parent, std::string_view job_id,
                          base::WallTime submitted) {
  const std::string time =
      fmt::format("{}", std::chrono::duration_cast<std::chrono::microseconds>(submitted.time_since_epoch()).count());
  TraceContext job = parent.value_or(TraceContext());
  if (!parent) {
    put_bytes(hash_of(1, {job_id, time}), job.trace_id.data());
    put_bytes(hash_of(2, {job_id, time}), job.trace_id.data() + 8);
  }
  put_bytes(hash_of(3, {bytes_of(job.trace_id), job_id, time}), job.span_id.data());
  return job;
}

TraceContext trace_within(const TraceContext& job, std::string_view name) {
  TraceContext within = job;
  put_bytes(hash_of(4, {bytes_of(job.trace_id), bytes_of(job.span_id), name}), within.span_id.data());
  return within;
}

std::string rank_span_name(int generation, int rank) {
  return fmt::format("generation {} rank {}", generation, rank);
}

std::vector<std::pair<std::string, std::string>> trace_variables(const TraceContext& job, int generation, int rank,
                                                                 const base::Environment& user_set) {
  std::vector<std::pair<std::string, std::string>> variables;
  variables.emplace_back("TRACEPARENT", traceparent(trace_within(job, rank_span_name(generation, rank))));
  // A state that belongs to another trace must not stay.
  if (!job.state.empty() || user_set.get("TRACESTATE")) variables.emplace_back("TRACESTATE", job.state);
  return variables;
}

}  // namespace muster::model
