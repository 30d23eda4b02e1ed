// All of job_spec_convert.h. Read job_spec_of() near the end first: it calls one read_ function per group of fields.
// to_proto() is the opposite direction.
#include "proto/job_spec_convert.h"

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <limits>

#include "base/ip_network.h"
#include "base/strings.h"
#include "proto/convert.h"

namespace muster::proto {
namespace {

using base::Status;
using std::chrono::milliseconds;
using Duration = google::protobuf::Duration;
using Timestamp = google::protobuf::Timestamp;

constexpr int kMostWords = 100'000;
constexpr std::size_t kLongestCommand = std::size_t{1} << 20;
constexpr std::size_t kLongestPath = 4096;
constexpr std::size_t kLongestName = 128;
constexpr std::size_t kLongestLabel = 256;
constexpr int kMostLabels = 64;
constexpr int kMostAfter = 256;
constexpr std::size_t kLongestJobWord = 8;  // a whole id
constexpr std::size_t kLongestEnvironment = std::size_t{1} << 20;
constexpr int kMostVariables = 20'000;
constexpr int kMostInterfaces = 64;
constexpr std::size_t kLongestInterface = 64;
constexpr int kHighestCpu = 1 << 16;
constexpr int kMostGpus = 64;  // GPUs per rank
constexpr std::size_t kLongestPinning = std::size_t{64} << 10;
constexpr std::size_t kLongestGpu = 96;
constexpr int kMostRestarts = 1'000'000;
constexpr int kMostResets = 1'000'000'000;
constexpr int kHighestSignal = 64;
constexpr int kMostLimits = 64;
constexpr int kMostStages = 1'000;
constexpr int kHighestPort = 65'535;
constexpr std::int64_t kLongestSeconds = 10LL * 366 * 24 * 3600;
constexpr milliseconds kHeldLease{std::chrono::minutes(10)};

template <typename... Args>
Status bad(std::string_view field, fmt::format_string<Args...> format, Args&&... args) {
  return base::invalid_argument("{}: {}", field, fmt::format(format, std::forward<Args>(args)...));
}

// Reads one of a few words. Empty means the first.
template <typename T>
struct Choice {
  std::string_view word;
  T meaning;
};

template <typename T, std::size_t N>
Status read_choice(std::string_view field, const std::string& word, const std::array<Choice<T>, N>& choices, T& into) {
  for (const Choice<T>& choice : choices) {
    if (word == choice.word || (word.empty() && &choice == &choices.front())) {
      into = choice.meaning;
      return base::ok_status();
    }
  }
  return bad(field, "unknown value '{}'", base::printable(word.substr(0, kLongestInterface)));
}

constexpr std::array kGpuBindings = {
    Choice<model::GpuBind>{"order", model::GpuBind::kOrder}, Choice<model::GpuBind>{"one", model::GpuBind::kOne},
    Choice<model::GpuBind>{"tile", model::GpuBind::kTile}, Choice<model::GpuBind>{"none", model::GpuBind::kNone}};
constexpr std::array kContainments = {
    Choice<std::string_view>{"auto", "auto"}, Choice<std::string_view>{"cgroup", "cgroup"},
    Choice<std::string_view>{"pidns", "pidns"}, Choice<std::string_view>{"subreaper", "subreaper"}};

struct OnFailureWord {
  v1::OnFailure wire;
  model::OnFailure meaning;
};
constexpr std::array kOnFailures = {OnFailureWord{v1::ON_FAILURE_FAIL, model::OnFailure::kFail},
                                    OnFailureWord{v1::ON_FAILURE_RESTART, model::OnFailure::kRestart},
                                    OnFailureWord{v1::ON_FAILURE_REPLACE, model::OnFailure::kReplace},
                                    OnFailureWord{v1::ON_FAILURE_SHRINK, model::OnFailure::kShrink}};

template <typename T, std::size_t N>
std::string_view word_of(const std::array<Choice<T>, N>& choices, T meaning) {
  const auto* const found = std::ranges::find(choices, meaning, &Choice<T>::meaning);
  return found == choices.end() ? choices.front().word : found->word;
}

Status check_range(std::string_view field, std::int64_t value, std::int64_t min, std::int64_t max) {
  if (value >= min && value <= max) return base::ok_status();
  return bad(field, "{} is not between {} and {}", value, min, max);
}

// Refuses NUL, which ends a word for execve, and text that is too long.
Status check_text(std::string_view field, const std::string& text, std::size_t longest) {
  if (text.size() > longest) return bad(field, "{} bytes are more than {}", text.size(), longest);
  if (text.find('\0') != std::string::npos) return bad(field, "it holds a zero byte");
  return base::ok_status();
}

// Refuses text for people that is not one printable line.
Status check_line(std::string_view field, const std::string& text, std::size_t longest) {
  MUSTER_RETURN_IF_ERROR(check_text(field, text, longest));
  if (base::printable(text) != text) return bad(field, "it holds a control character");
  return base::ok_status();
}

base::Result<milliseconds> read_duration(std::string_view field, const Duration& from) {
  const bool is_valid = from.seconds() >= 0 && from.nanos() >= 0 && from.nanos() <= 999'999'999;
  if (!is_valid || from.seconds() > kLongestSeconds) return bad(field, "not between 0 and ten years");
  return milliseconds(from.seconds() * 1000 + (from.nanos() + 999'999) / 1'000'000);
}

Status read_time(std::string_view field, bool is_given, const Duration& from, milliseconds min, milliseconds& into) {
  if (!is_given) return base::ok_status();
  MUSTER_ASSIGN_OR_RETURN(into, read_duration(field, from));
  return into >= min ? base::ok_status() : bad(field, "must be at least {} ms", min.count());
}

void set_time(milliseconds from, Duration& to) {
  to.set_seconds(from.count() / 1000);
  to.set_nanos(static_cast<int>(from.count() % 1000 * 1'000'000));
}

using Words = google::protobuf::RepeatedPtrField<std::string>;

Status read_words(std::string_view field, const Words& words, std::vector<std::string>& into) {
  if (!words.empty() && words.Get(0).empty()) return bad(field, "its first word is empty");
  if (words.size() > kMostWords) return bad(field, "more than {} words", kMostWords);
  std::size_t bytes = 0;
  for (const std::string& word : words) {
    MUSTER_RETURN_IF_ERROR(check_text(field, word, kLongestCommand));
    bytes += word.size() + 1;
    if (bytes > kLongestCommand) return bad(field, "more than {} bytes", kLongestCommand);
    into.push_back(word);
  }
  return base::ok_status();
}

Status read_role(const v1::Role& from, bool has_command, model::Role& role) {
  role.name = from.name();
  MUSTER_RETURN_IF_ERROR(check_range("spec.roles.size", from.size(), 1, model::kMaxRanks));
  role.np = from.size();
  MUSTER_RETURN_IF_ERROR(read_words("spec.roles.command", from.command(), role.command));
  if (role.command.empty() && !has_command) return bad("spec.roles.command", "is missing");
  role.workdir = from.working_directory();
  if (!role.workdir.empty() && !role.workdir.starts_with('/')) {
    return bad("spec.roles.working_directory", "must be an absolute path");
  }
  MUSTER_RETURN_IF_ERROR(check_text("spec.roles.working_directory", role.workdir, kLongestPath));
  role.is_service = from.service();
  return base::ok_status();
}

Status read_roles(const v1::JobSpec& spec, model::JobSpec& job) {
  if (spec.roles_size() > model::kMostRoles) return bad("spec.roles", "more than {}", model::kMostRoles);
  for (const v1::Role& from : spec.roles()) {
    MUSTER_RETURN_IF_ERROR(read_role(from, !spec.command().empty(), job.roles.emplace_back()));
  }
  job.expands_roles = spec.expand_roles();
  job.is_dmlc = spec.dmlc();
  if (job.roles.empty()) return job.is_dmlc ? bad("spec.dmlc", "it has no roles") : base::ok_status();
  MUSTER_RETURN_IF_ERROR(model::check_roles(job.roles).with_context("spec.roles"));
  if (spec.size() != model::count_ranks(job.roles)) {
    return bad("spec.size", "the roles have {} ranks together, not {}", model::count_ranks(job.roles), spec.size());
  }
  return base::ok_status();
}

Status read_command(const v1::JobSpec& spec, model::JobSpec& job) {
  if (spec.command().empty() && spec.roles().empty()) return bad("spec.command", "is missing");
  MUSTER_RETURN_IF_ERROR(read_words("spec.command", spec.command(), job.command));
  MUSTER_RETURN_IF_ERROR(read_roles(spec, job));
  if (spec.expand_size() > spec.command_size()) return bad("spec.expand", "more entries than the command has words");
  for (const std::uint32_t index : spec.expand()) {
    MUSTER_RETURN_IF_ERROR(check_range("spec.expand", index, 0, spec.command_size() - 1));
    job.expand.push_back(index);
  }
  if (!spec.working_directory().starts_with('/')) return bad("spec.working_directory", "must be an absolute path");
  job.workdir = spec.working_directory();
  MUSTER_RETURN_IF_ERROR(check_text("spec.working_directory", job.workdir, kLongestPath));
  MUSTER_RETURN_IF_ERROR(check_range("spec.umask", spec.umask(), 0, 0777));
  if (spec.umask() != 0) job.umask = spec.umask();
  job.role = spec.role().empty() ? job.role : spec.role();
  return check_line("spec.role", job.role, kLongestName);
}

base::Result<model::RankPlace> rank_place_of(const v1::RankPlace& from, const std::string& host) {
  constexpr std::string_view kField = "spec.hosts.ranks";
  model::RankPlace place{.rank = from.rank(), .host = host};
  MUSTER_RETURN_IF_ERROR(check_range(kField, from.rank(), 0, model::kMaxRanks - 1));
  if (from.cpus_size() > kHighestCpu) return bad(kField, "rank {} has more than {} cpus", from.rank(), kHighestCpu);
  for (const int cpu : from.cpus()) MUSTER_RETURN_IF_ERROR(check_range("spec.hosts.ranks.cpus", cpu, 0, kHighestCpu));
  place.cpus.assign(from.cpus().begin(), from.cpus().end());
  std::ranges::sort(place.cpus);
  if (from.gpus_size() > kMostGpus) return bad(kField, "rank {} has more than {} GPUs", from.rank(), kMostGpus);
  for (const std::string& gpu : from.gpus()) {
    const bool is_uuid = !gpu.empty() && gpu.size() <= kLongestGpu && std::ranges::all_of(gpu, [](char c) {
      return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '/' ||
             c == ':' || c == '.';
    });
    if (!is_uuid)
      return bad("spec.hosts.ranks.gpus", "'{}' is neither a UUID nor a PCI address",
                 base::printable(gpu.substr(0, kLongestGpu)));
    place.gpus.push_back(gpu);
  }
  return place;
}

base::Result<model::HostSpec> host_of(const v1::WantedHost& from) {
  model::HostSpec host;
  host.name = from.name();
  if (!model::is_host_name(host.name)) {
    return bad("spec.hosts.name", "'{}' is not a host name", base::printable(host.name.substr(0, kLongestName)));
  }
  host.user = from.user();
  if (!host.user.empty() && !model::is_user_name(host.user)) {
    return bad("spec.hosts.user", "'{}' is not a user name", base::printable(host.user.substr(0, kLongestName)));
  }
  MUSTER_RETURN_IF_ERROR(check_range("spec.hosts.port", from.port(), 0, kHighestPort));
  host.port = from.port();
  MUSTER_RETURN_IF_ERROR(check_range("spec.hosts.slots", from.slots(), 0, model::kMaxSlotsPerHost));
  if (from.slots() > 0) host.slots = from.slots();
  return host;
}

// Checks that every rank from 0 appears once.
Status check_places(const v1::JobSpec& spec, model::JobSpec& job) {
  std::ranges::sort(job.places, {}, &model::RankPlace::rank);
  for (std::size_t i = 0; i < job.places.size(); ++i) {
    if (job.places[i].rank == static_cast<int>(i)) continue;
    return bad("spec.hosts.ranks", "rank {} is {}", i,
               job.places[i].rank < static_cast<int>(i) ? "listed twice" : "missing");
  }
  const bool is_whole =
      std::ranges::none_of(spec.hosts(), [](const v1::WantedHost& host) { return host.ranks().empty(); });
  if (!is_whole) return bad("spec.hosts.ranks", "either all hosts have ranks or none");
  const int count = static_cast<int>(job.places.size());
  if (spec.size() != 0 && spec.size() != count) {
    return bad("spec.hosts.ranks", "{} ranks are placed, but spec.size is {}", count, spec.size());
  }
  job.placement.np = count;
  return base::ok_status();
}

Status read_placement(const v1::JobSpec& spec, model::JobSpec& job) {
  model::PlacementRequest& placement = job.placement;
  MUSTER_RETURN_IF_ERROR(check_range("spec.size", spec.size(), 0, model::kMaxRanks));
  placement.np = spec.size();
  MUSTER_RETURN_IF_ERROR(check_range("spec.ranks_per_host", spec.ranks_per_host(), 0, model::kMaxSlotsPerHost));
  placement.ranks_per_node = spec.ranks_per_host();
  placement.oversubscribe = spec.oversubscribe();
  placement.map_by = spec.map_by_node() ? model::MapBy::kNode : model::MapBy::kSlot;
  if (spec.hosts_size() > model::kMaxHosts) return bad("spec.hosts", "more than {}", model::kMaxHosts);
  for (const v1::WantedHost& wanted : spec.hosts()) {
    MUSTER_ASSIGN_OR_RETURN(model::HostSpec host, host_of(wanted));
    for (const v1::RankPlace& rank : wanted.ranks()) {
      MUSTER_ASSIGN_OR_RETURN(model::RankPlace place, rank_place_of(rank, host.name));
      job.places.push_back(std::move(place));
    }
    placement.hosts.push_back(std::move(host));
  }
  return job.places.empty() ? base::ok_status() : check_places(spec, job);
}

Status read_life(const v1::JobSpec& spec, model::JobSpec& job) {
  switch (spec.on_exit()) {
    case v1::ON_EXIT_UNSPECIFIED:
    case v1::ON_EXIT_NONZERO_KILL:
      job.on_exit = model::OnExit::kNonzeroKill;
      break;
    case v1::ON_EXIT_ANY_KILL:
      job.on_exit = model::OnExit::kAnyKill;
      break;
    case v1::ON_EXIT_WAIT:
      job.on_exit = model::OnExit::kWait;
      break;
    default:
      return bad("spec.on_exit", "unknown value {}", static_cast<int>(spec.on_exit()));
  }
  job.lease = kHeldLease;
  MUSTER_RETURN_IF_ERROR(read_time("spec.start_timeout", spec.has_start_timeout(), spec.start_timeout(),
                                   milliseconds(1), job.start_timeout));
  MUSTER_RETURN_IF_ERROR(check_range("spec.min_hosts", spec.min_hosts(), 0, model::kMaxHosts));
  job.min_hosts = spec.min_hosts();
  MUSTER_RETURN_IF_ERROR(
      read_time("spec.kill_grace", spec.has_kill_grace(), spec.kill_grace(), milliseconds(0), job.kill_grace));
  MUSTER_RETURN_IF_ERROR(read_time("spec.lease", spec.has_lease(), spec.lease(), milliseconds(1'000), job.lease));
  if (spec.has_timeout()) {
    job.timeout = milliseconds(0);
    MUSTER_RETURN_IF_ERROR(read_time("spec.timeout", true, spec.timeout(), milliseconds(1), *job.timeout));
  }
  if (spec.has_end_signal()) {
    model::EndSignal& end = job.end_signal.emplace();
    MUSTER_RETURN_IF_ERROR(check_range("spec.end_signal.signal", spec.end_signal().signal(), 1, kHighestSignal));
    end.signo = spec.end_signal().signal();
    MUSTER_RETURN_IF_ERROR(read_time("spec.end_signal.ahead", spec.end_signal().has_ahead(), spec.end_signal().ahead(),
                                     milliseconds(0), end.ahead));
  }
  MUSTER_RETURN_IF_ERROR(check_range("spec.max_restarts", spec.max_restarts(), 0, kMostRestarts));
  job.max_restarts = spec.max_restarts();
  return base::ok_status();
}

Status read_cooldown(const v1::LiveRanks& from, std::optional<std::pair<int, int>>& cooldown) {
  if (from.has_shortest_cooldown() != from.has_longest_cooldown()) {
    return bad("spec.failure.live.longest_cooldown", "give both ends of the range, or none");
  }
  if (!from.has_shortest_cooldown()) return base::ok_status();
  milliseconds shortest{};
  milliseconds longest{};
  MUSTER_RETURN_IF_ERROR(
      read_time("spec.failure.live.shortest_cooldown", true, from.shortest_cooldown(), milliseconds(0), shortest));
  MUSTER_RETURN_IF_ERROR(
      read_time("spec.failure.live.longest_cooldown", true, from.longest_cooldown(), milliseconds(0), longest));
  if (longest < shortest) return bad("spec.failure.live.longest_cooldown", "is less than shortest_cooldown");
  cooldown.emplace(std::chrono::ceil<std::chrono::seconds>(shortest).count(),
                   std::chrono::ceil<std::chrono::seconds>(longest).count());
  return base::ok_status();
}

// Reads ON_FAILURE_LIVE. FailurePolicy::on_failure stays kFail, because no generation starts all ranks again.
Status read_live(const v1::JobSpec& spec, model::JobSpec& job) {
  const v1::FailurePolicy& from = spec.failure();
  model::ElasticSpec& live = job.live.emplace();
  MUSTER_RETURN_IF_ERROR(check_range("spec.failure.live.reset_limit", from.live().reset_limit(), 0, kMostResets));
  live.min_ranks = std::max(from.min_ranks(), 1);
  if (from.max_ranks() > 0) live.max_ranks = from.max_ranks();
  if (from.live().has_reset_limit()) live.reset_limit = from.live().reset_limit();
  if (from.live().has_elastic_timeout()) {
    milliseconds timeout{};
    MUSTER_RETURN_IF_ERROR(
        read_time("spec.failure.live.elastic_timeout", true, from.live().elastic_timeout(), milliseconds(0), timeout));
    live.elastic_timeout = std::chrono::ceil<std::chrono::seconds>(timeout);
  }
  MUSTER_RETURN_IF_ERROR(read_cooldown(from.live(), live.cooldown));
  if (!job.roles.empty() || !job.places.empty()) {
    return bad("spec.failure.on_failure", "jobs of several programs and jobs with exact places keep their hosts");
  }
  if (job.max_restarts > 0 || !from.progress_text().empty() || !from.progress_file().empty()) {
    return bad("spec.failure.on_failure", "LIVE ranks do not start again: leave max_restarts and progress out");
  }
  if (spec.size() > 0 && (spec.size() < live.min_ranks || spec.size() > live.max_ranks.value_or(spec.size()))) {
    return bad("spec.size", "{} is not between min_ranks and max_ranks", spec.size());
  }
  return base::ok_status();
}

Status read_failure(const v1::JobSpec& spec, model::JobSpec& job) {
  model::FailurePolicy& policy = job.failure;
  const v1::FailurePolicy& from = spec.failure();
  const bool is_unspecified = from.on_failure() == v1::ON_FAILURE_UNSPECIFIED;
  if (!spec.has_failure()) return base::ok_status();
  const auto* const known = std::ranges::find(kOnFailures, from.on_failure(), &OnFailureWord::wire);
  const bool is_live = from.on_failure() == v1::ON_FAILURE_LIVE;
  if (!is_unspecified && !is_live && known == kOnFailures.end()) {
    return bad("spec.failure.on_failure", "unknown value {}", static_cast<int>(from.on_failure()));
  }
  if (!is_unspecified && !is_live) policy.on_failure = known->meaning;
  MUSTER_RETURN_IF_ERROR(check_range("spec.failure.min_ranks", from.min_ranks(), 0, model::kMaxRanks));
  MUSTER_RETURN_IF_ERROR(check_range("spec.failure.max_ranks", from.max_ranks(), 0, model::kMaxRanks));
  MUSTER_RETURN_IF_ERROR(check_range("spec.failure.min_hosts", from.min_hosts(), 0, model::kMaxHosts));
  policy.min_ranks = std::max(from.min_ranks(), 1);
  policy.min_hosts = std::max(from.min_hosts(), 1);
  if (from.max_ranks() > 0) policy.max_ranks = from.max_ranks();
  if (from.max_ranks() > 0 && from.max_ranks() < from.min_ranks()) {
    return bad("spec.failure.max_ranks", "{} is less than min_ranks {}", from.max_ranks(), from.min_ranks());
  }
  if (!is_live && from.has_live()) return bad("spec.failure.live", "only with on_failure LIVE");
  if (is_live) return read_live(spec, job);
  MUSTER_RETURN_IF_ERROR(check_line("spec.failure.progress_text", from.progress_text(), kLongestLabel));
  policy.progress_text = from.progress_text();
  policy.progress_file = from.progress_file();
  MUSTER_RETURN_IF_ERROR(check_text("spec.failure.progress_file", policy.progress_file, kLongestPath));
  if (from.has_failed_host_cooldown()) {
    if (!model::may_change_hosts(policy)) {
      return bad("spec.failure.failed_host_cooldown", "only REPLACE and SHRINK leave failed hosts out");
    }
    MUSTER_RETURN_IF_ERROR(read_time("spec.failure.failed_host_cooldown", true, from.failed_host_cooldown(),
                                     milliseconds(0), policy.failed_host_cooldown.emplace()));
  }
  if (model::may_change_hosts(policy) && (!job.roles.empty() || !job.places.empty())) {
    return bad("spec.failure.on_failure", "jobs of several programs and jobs with exact places keep their hosts");
  }
  return base::ok_status();
}

Status read_hang(const v1::JobSpec& spec, model::HangPolicy& policy) {
  const v1::HangPolicy& from = spec.hang();
  if (from.has_timeout()) {
    MUSTER_RETURN_IF_ERROR(read_time("spec.hang.timeout", true, from.timeout(), milliseconds(0), policy.timeout));
  }
  switch (from.on_hang()) {
    case v1::ON_HANG_UNSPECIFIED:
    case v1::ON_HANG_WARN:
      return base::ok_status();
    case v1::ON_HANG_RESTART:
      policy.on_hang = model::OnHang::kRestart;
      return base::ok_status();
    case v1::ON_HANG_KILL:
      policy.on_hang = model::OnHang::kKill;
      return base::ok_status();
    default:
      return bad("spec.hang.on_hang", "unknown value {}", static_cast<int>(from.on_hang()));
  }
}

Status read_pinning(const v1::JobSpec& spec, model::Pinning& pinning) {
  const auto read = [&](std::string_view field, const std::string& word, auto parse) -> Status {
    if (word.empty()) return base::ok_status();
    MUSTER_RETURN_IF_ERROR(check_line(field, word, kLongestPinning));
    return parse(word, pinning).with_context(field);
  };
  MUSTER_RETURN_IF_ERROR(read("spec.bind_to", spec.bind_to(), model::parse_bind_to));
  MUSTER_RETURN_IF_ERROR(read_choice("spec.gpu_bind", spec.gpu_bind(), kGpuBindings, pinning.gpu_bind));
  MUSTER_RETURN_IF_ERROR(check_range("spec.depth", spec.depth(), 0, kHighestCpu));
  pinning.depth = std::max(spec.depth(), 1);
  MUSTER_RETURN_IF_ERROR(check_range("spec.hyperthreads", spec.hyperthreads(), 0, model::kMostThreads));
  pinning.hyperthreads = spec.hyperthreads();
  MUSTER_RETURN_IF_ERROR(read("spec.reserve_cores", spec.reserve_cores(), model::parse_reserved_cores));
  if (spec.gpus_per_rank() < 0 || spec.gpus_per_rank() > model::kMostGpus) {
    return bad("spec.gpus_per_rank", "{} is not from 0 to {}", spec.gpus_per_rank(), model::kMostGpus);
  }
  pinning.gpus_per_rank = spec.gpus_per_rank();
  pinning.share_gpu = spec.share_gpu();
  MUSTER_RETURN_IF_ERROR(read("spec.gpu_order", spec.gpu_order(), model::parse_gpu_order));
  return read("spec.gpu_tiles", spec.gpu_tiles(), model::parse_gpu_tiles);
}

Status read_runtime(const v1::JobSpec& spec, model::Runtime& runtime) {
  if (spec.runtime().empty()) return base::ok_status();
  MUSTER_RETURN_IF_ERROR(check_line("spec.runtime", spec.runtime(), kLongestPinning));
  auto parsed = model::parse_runtime(spec.runtime());
  if (!parsed.ok()) return parsed.status().with_context("spec.runtime");
  runtime = *parsed;
  return base::ok_status();
}

Status read_container(const v1::JobSpec& spec, model::Container& container) {
  if (!spec.has_container()) return base::ok_status();
  container = container_of(spec.container());
  if (container.image.empty()) return bad("spec.container.image", "is missing");
  MUSTER_RETURN_IF_ERROR(check_text("spec.container.image", container.image, kLongestPath));
  MUSTER_RETURN_IF_ERROR(check_text("spec.container.program", container.program, kLongestPath));
  std::size_t bytes = 0;
  for (const std::string& word : container.args) {
    MUSTER_RETURN_IF_ERROR(check_text("spec.container.args", word, kLongestPath));
    bytes += word.size() + 1;
    if (bytes > kLongestPinning) return bad("spec.container.args", "more than {} bytes", kLongestPinning);
  }
  return base::ok_status();
}

Status read_stages(const v1::JobSpec& spec, model::JobSpec& job) {
  if (spec.stages_size() > kMostStages) return bad("spec.stages", "more than {}", kMostStages);
  for (const v1::StagedPath& staged : spec.stages()) {
    for (const std::string* const path : {&staged.source(), &staged.destination()}) {
      if (!path->starts_with('/')) return bad("spec.stages", "'{}' is not an absolute path", base::printable(*path));
      MUSTER_RETURN_IF_ERROR(check_text("spec.stages", *path, kLongestPath));
    }
    job.stages.push_back({.source = staged.source(), .destination = staged.destination()});
  }
  job.stage_env = spec.stage_env();
  if (!job.stage_env.empty() && !job.stage_env.starts_with('/')) {
    return bad("spec.stage_env", "'{}' is not an absolute path", base::printable(job.stage_env));
  }
  return check_text("spec.stage_env", job.stage_env, kLongestPath);
}

Status read_surroundings(const v1::JobSpec& spec, model::JobSpec& job) {
  MUSTER_RETURN_IF_ERROR(read_pinning(spec, job.pinning));
  MUSTER_RETURN_IF_ERROR(read_container(spec, job.container));
  if (spec.limits_size() > kMostLimits) return bad("spec.limits", "more than {}", kMostLimits);
  for (const v1::UlimitSetting& limit : spec.limits()) {
    MUSTER_RETURN_IF_ERROR(check_range("spec.limits.resource", limit.resource(), 0, RLIM_NLIMITS - 1));
    if (limit.soft() > limit.hard()) return bad("spec.limits", "{} is above {}", limit.soft(), limit.hard());
    job.limits.push_back({.resource = limit.resource(), .soft = limit.soft(), .hard = limit.hard()});
  }
  if (spec.network_interfaces_size() > kMostInterfaces) {
    return bad("spec.network_interfaces", "more than {}", kMostInterfaces);
  }
  for (const std::string& name : spec.network_interfaces()) {
    MUSTER_RETURN_IF_ERROR(check_line("spec.network_interfaces", name, kLongestInterface));
    if (name.empty()) return bad("spec.network_interfaces", "an empty name");
    job.network_interfaces.push_back(name);
  }
  if (!spec.network().empty()) {
    MUSTER_RETURN_IF_ERROR(check_line("spec.network", spec.network(), kLongestInterface));
    auto network = base::IpNetwork::parse(spec.network());
    if (!network.ok()) return network.status().with_context("spec.network");
    job.network = std::move(*network);
  }
  job.torch_agent_store = spec.torch_agent_store();
  MUSTER_RETURN_IF_ERROR(read_stages(spec, job));
  MUSTER_RETURN_IF_ERROR(read_runtime(spec, job.runtime));
  return base::ok_status();
}

Status check_people(const v1::SubmitRequest& request) {
  MUSTER_RETURN_IF_ERROR(check_text("request_id", request.request_id(), kLongestName));
  MUSTER_RETURN_IF_ERROR(check_line("name", request.name(), kLongestName));
  if (request.labels_size() > kMostLabels) return bad("labels", "more than {}", kMostLabels);
  for (const v1::NameValue& label : request.labels()) {
    if (label.name().empty()) return bad("labels", "a label has no name");
    MUSTER_RETURN_IF_ERROR(check_line("labels.name", label.name(), kLongestLabel));
    MUSTER_RETURN_IF_ERROR(check_line("labels.value", label.value(), kLongestLabel));
  }
  return base::ok_status();
}

// Errors name variables, never values. `bytes` counts all lists of the request together.
Status read_variables(std::string_view field, const google::protobuf::RepeatedPtrField<v1::EnvVar>& variables,
                      std::size_t& bytes, std::vector<std::string>& named) {
  if (variables.size() > kMostVariables) return bad(field, "more than {}", kMostVariables);
  for (const v1::EnvVar& variable : variables) {
    const std::string& name = variable.name();
    bytes += name.size() + variable.value().size() + 2;
    if (bytes > kLongestEnvironment) return bad(field, "more than {} bytes", kLongestEnvironment);
    if (name.empty() || name.find('=') != std::string::npos || name.find('\0') != std::string::npos) {
      return bad(field, "'{}' is not a variable name", base::printable(name.substr(0, kLongestName)));
    }
    if (variable.value().find('\0') != std::string::npos) {
      return bad(field, "the value of {} holds a zero byte", base::printable(name.substr(0, kLongestName)));
    }
    named.push_back(name + '=' + variable.value());
  }
  return base::ok_status();
}

Status read_environment(const v1::SubmitRequest& request, model::JobSpec& job) {
  job.environment.only_named = true;
  std::size_t bytes = 0;
  MUSTER_RETURN_IF_ERROR(read_variables("environment", request.environment(), bytes, job.environment.named));
  if (request.role_environment().empty()) return base::ok_status();
  if (request.role_environment_size() != request.spec().roles_size()) {
    return bad("role_environment", "{} for {} roles", request.role_environment_size(), request.spec().roles_size());
  }
  for (std::size_t i = 0; i < job.roles.size(); ++i) {
    MUSTER_RETURN_IF_ERROR(read_variables("role_environment",
                                          request.role_environment(static_cast<int>(i)).environment(), bytes,
                                          job.roles[i].environment));
  }
  return base::ok_status();
}

void set_pinning(const model::Pinning& pinning, v1::JobSpec& spec) {
  spec.set_bind_to(model::bind_to_word(pinning));
  spec.set_gpu_bind(std::string(word_of(kGpuBindings, pinning.gpu_bind)));
  if (pinning.bind_to == model::BindTo::kDepth) spec.set_depth(pinning.depth);
  spec.set_hyperthreads(pinning.hyperthreads);
  spec.set_reserve_cores(model::format_cpu_list(pinning.reserved_cores));
  if (pinning.gpu_order != model::GpuOrder::kNearest) spec.set_gpu_order(model::gpu_order_word(pinning));
  spec.set_gpu_tiles(model::gpu_tiles_word(pinning));
  spec.set_gpus_per_rank(pinning.gpus_per_rank);
  spec.set_share_gpu(pinning.share_gpu);
}

void set_live(const model::ElasticSpec& live, v1::FailurePolicy& to) {
  to.set_on_failure(v1::ON_FAILURE_LIVE);
  to.set_min_ranks(live.min_ranks);
  to.set_max_ranks(live.max_ranks.value_or(0));
  v1::LiveRanks& ranks = *to.mutable_live();
  if (live.reset_limit) ranks.set_reset_limit(*live.reset_limit);
  set_time(live.elastic_timeout, *ranks.mutable_elastic_timeout());
  if (!live.cooldown) return;
  set_time(std::chrono::seconds(live.cooldown->first), *ranks.mutable_shortest_cooldown());
  set_time(std::chrono::seconds(live.cooldown->second), *ranks.mutable_longest_cooldown());
}

// Leaves the policy out if it is the usual one, so that older launcherds read the same spec.
void set_hang(const model::HangPolicy& policy, v1::JobSpec& spec) {
  if (policy == model::HangPolicy()) return;
  set_time(policy.timeout, *spec.mutable_hang()->mutable_timeout());
  switch (policy.on_hang) {
    case model::OnHang::kWarn:
      return spec.mutable_hang()->set_on_hang(v1::ON_HANG_WARN);
    case model::OnHang::kRestart:
      return spec.mutable_hang()->set_on_hang(v1::ON_HANG_RESTART);
    case model::OnHang::kKill:
      return spec.mutable_hang()->set_on_hang(v1::ON_HANG_KILL);
  }
}

// Leaves the policy out if max_restarts says all of it, so that older launcherds read the same spec.
void set_failure(const model::JobSpec& job, v1::JobSpec& spec) {
  if (job.live) return set_live(*job.live, *spec.mutable_failure());
  const model::FailurePolicy& policy = job.failure;
  if (!model::may_change_hosts(policy) && policy.progress_text.empty() && policy.progress_file.empty()) return;
  v1::FailurePolicy& to = *spec.mutable_failure();
  to.set_on_failure(std::ranges::find(kOnFailures, policy.on_failure, &OnFailureWord::meaning)->wire);
  to.set_min_ranks(policy.min_ranks);
  to.set_max_ranks(policy.max_ranks.value_or(0));
  to.set_min_hosts(policy.min_hosts);
  to.set_progress_text(policy.progress_text);
  to.set_progress_file(policy.progress_file);
  if (policy.failed_host_cooldown) set_time(*policy.failed_host_cooldown, *to.mutable_failed_host_cooldown());
}

}  // namespace

base::Result<model::JobSpec> job_spec_of(const v1::JobSpec& spec) {
  model::JobSpec job;
  MUSTER_RETURN_IF_ERROR(read_command(spec, job));
  MUSTER_RETURN_IF_ERROR(read_placement(spec, job));
  MUSTER_RETURN_IF_ERROR(read_life(spec, job));
  MUSTER_RETURN_IF_ERROR(read_failure(spec, job));
  MUSTER_RETURN_IF_ERROR(read_hang(spec, job.hang));
  MUSTER_RETURN_IF_ERROR(read_surroundings(spec, job));
  job.environment.only_named = true;
  job.input.to = model::InputTo::kNone;
  return job;
}

namespace {

Status read_elastic_policy(const v1::JobSpec& spec, model::ElasticPolicy& policy) {
  using enum model::ElasticPolicy;
  switch (spec.elastic_policy()) {
    case v1::ELASTIC_POLICY_UNSPECIFIED:
      return base::ok_status();
    case v1::ELASTIC_POLICY_FIXED:
      policy = kFixed;
      break;
    case v1::ELASTIC_POLICY_GIVE_BACK:
      policy = kGiveBack;
      break;
    case v1::ELASTIC_POLICY_GROW:
      policy = kGrow;
      break;
    case v1::ELASTIC_POLICY_BOTH:
      policy = kBoth;
      break;
    default:
      return bad("spec.elastic_policy", "unknown value {}", static_cast<int>(spec.elastic_policy()));
  }
  const v1::OnFailure on_failure = spec.failure().on_failure();
  if (on_failure == v1::ON_FAILURE_REPLACE || on_failure == v1::ON_FAILURE_SHRINK ||
      on_failure == v1::ON_FAILURE_LIVE) {
    return base::ok_status();
  }
  return bad("spec.elastic_policy",
             "this job keeps its size; only jobs with --min-np, or with --on-failure shrink or replace, change it");
}

}  // namespace

base::Result<LaunchRequests> launch_requests_of(const v1::JobSpec& spec) {
  LaunchRequests requests;
  std::string_view contain;
  MUSTER_RETURN_IF_ERROR(read_choice("spec.contain", spec.contain(), kContainments, contain));
  requests.contain = contain;
  if (!v1::OnLauncherLoss_IsValid(spec.on_launcher_loss())) {
    return bad("spec.on_launcher_loss", "unknown value {}", static_cast<int>(spec.on_launcher_loss()));
  }
  // No launcherd can take over ranks that live on (docs/adr/0049).
  const bool is_live = spec.failure().on_failure() == v1::ON_FAILURE_LIVE;
  requests.hold = spec.on_launcher_loss() != v1::ON_LAUNCHER_LOSS_KILL && !is_live;
  MUSTER_RETURN_IF_ERROR(read_elastic_policy(spec, requests.elastic_policy));
  if (spec.has_deadline()) {
    MUSTER_ASSIGN_OR_RETURN(requests.deadline, deadline_of("spec.deadline", spec.deadline()));
  }
  return requests;
}

base::Result<base::WallTime> deadline_of(std::string_view field, const Timestamp& time) {
  constexpr std::int64_t kYear2200 = 7'258'118'400;
  if (time.seconds() < 0 || time.seconds() > kYear2200 || time.nanos() < 0 || time.nanos() > 999'999'999) {
    return bad(field, "must be between 1970 and 2200");
  }
  return base::WallTime(std::chrono::duration_cast<base::WallTime::duration>(std::chrono::seconds(time.seconds()) +
                                                                             std::chrono::nanoseconds(time.nanos())));
}

base::Result<std::vector<model::DependencyWords>> dependencies_of(
    const google::protobuf::RepeatedPtrField<v1::JobDependency>& after) {
  if (after.size() > kMostAfter) return bad("after", "more than {} jobs", kMostAfter);
  std::vector<model::DependencyWords> words;
  for (const v1::JobDependency& each : after) {
    if (each.job().empty() || each.job().size() > kLongestJobWord) {
      return bad("after.job", "'{}' is no id of a job, nor the beginning of one",
                 base::printable(each.job().substr(0, kLongestName)));
    }
    switch (each.condition()) {
      case v1::DEPENDENCY_CONDITION_UNSPECIFIED:
      case v1::DEPENDENCY_CONDITION_OK:
        words.push_back({each.job(), model::AfterEnd::kOk});
        break;
      case v1::DEPENDENCY_CONDITION_ANY:
        words.push_back({each.job(), model::AfterEnd::kAny});
        break;
      default:
        return bad("after.condition", "unknown value {}", static_cast<int>(each.condition()));
    }
  }
  return words;
}

v1::JobDependency to_proto(const model::JobDependency& dependency) {
  v1::JobDependency to;
  to.set_job(dependency.job.str());
  to.set_condition(static_cast<v1::DependencyCondition>(dependency.condition));  // the numbers are the same
  return to;
}

namespace {

Status read_array(const v1::ArraySpec& from, model::ArraySpec& array) {
  for (const v1::IndexRange& range : from.elements()) array.elements.push_back({range.first(), range.last()});
  array.most_at_once = from.most_at_once();
  return model::check_array(array).with_context("array");
}

// Reads those fields about the job's place in the queue that stand beside the spec.
Status read_queue_requests(const v1::SubmitRequest& request, Submission& submission) {
  MUSTER_ASSIGN_OR_RETURN(submission.after, dependencies_of(request.after()));
  MUSTER_RETURN_IF_ERROR(check_text("notify", request.notify(), kLongestPath));
  submission.notify = request.notify();
  if (!request.has_array()) return base::ok_status();
  return read_array(request.array(), submission.array.emplace());
}

}  // namespace

base::Result<Submission> submission_of(const v1::SubmitRequest& request) {
  if (!request.has_spec()) return bad("spec", "is missing");
  Submission submission;
  MUSTER_ASSIGN_OR_RETURN(submission.job, job_spec_of(request.spec()));
  MUSTER_ASSIGN_OR_RETURN(submission.requests, launch_requests_of(request.spec()));
  // launcherd's queue gives a job its hosts (docs/adr/0066).
  if (submission.job.min_hosts > 0) return bad("spec.min_hosts", "must be 0 for a job of launcherd");
  MUSTER_RETURN_IF_ERROR(check_people(request));
  MUSTER_RETURN_IF_ERROR(read_queue_requests(request, submission));
  MUSTER_RETURN_IF_ERROR(read_environment(request, submission.job));
  if (request.has_retention()) {
    MUSTER_ASSIGN_OR_RETURN(const milliseconds retention, read_duration("retention", request.retention()));
    submission.retention = std::chrono::ceil<std::chrono::seconds>(retention);
  }
  return submission;
}

v1::JobSpec to_proto(const model::JobSpec& job) {
  v1::JobSpec spec;
  for (const std::string& word : job.command) spec.add_command(word);
  for (const std::size_t index : job.expand) spec.add_expand(static_cast<std::uint32_t>(index));
  spec.set_working_directory(job.workdir);
  spec.set_umask(job.umask);
  spec.set_size(job.placement.np);
  for (const model::HostSpec& host : job.placement.hosts) {
    v1::WantedHost& wanted = *spec.add_hosts();
    wanted.set_name(host.name);
    wanted.set_slots(host.slots.value_or(0));
    wanted.set_user(host.user);
    wanted.set_port(host.port);
    for (const model::RankPlace& place : job.places) {
      if (place.host != host.name) continue;
      v1::RankPlace& rank = *wanted.add_ranks();
      rank.set_rank(place.rank);
      rank.mutable_cpus()->Add(place.cpus.begin(), place.cpus.end());
      rank.mutable_gpus()->Add(place.gpus.begin(), place.gpus.end());
    }
  }
  spec.set_ranks_per_host(job.placement.ranks_per_node);
  spec.set_oversubscribe(job.placement.oversubscribe);
  spec.set_map_by_node(job.placement.map_by == model::MapBy::kNode);
  set_pinning(job.pinning, spec);
  if (!job.container.image.empty()) *spec.mutable_container() = to_proto(job.container);
  spec.set_on_exit(job.on_exit == model::OnExit::kWait      ? v1::ON_EXIT_WAIT
                   : job.on_exit == model::OnExit::kAnyKill ? v1::ON_EXIT_ANY_KILL
                                                            : v1::ON_EXIT_NONZERO_KILL);
  set_time(job.start_timeout, *spec.mutable_start_timeout());
  spec.set_min_hosts(job.min_hosts);
  if (job.timeout) set_time(*job.timeout, *spec.mutable_timeout());
  set_time(job.kill_grace, *spec.mutable_kill_grace());
  set_time(job.lease, *spec.mutable_lease());
  if (job.end_signal) {
    spec.mutable_end_signal()->set_signal(job.end_signal->signo);
    set_time(job.end_signal->ahead, *spec.mutable_end_signal()->mutable_ahead());
  }
  spec.set_max_restarts(job.max_restarts);
  set_failure(job, spec);
  set_hang(job.hang, spec);
  for (const model::Ulimit& limit : job.limits) {
    v1::UlimitSetting& setting = *spec.add_limits();
    setting.set_resource(limit.resource);
    setting.set_soft(limit.soft);
    setting.set_hard(limit.hard);
  }
  for (const std::string& name : job.network_interfaces) spec.add_network_interfaces(name);
  if (job.network) spec.set_network(job.network->str());
  spec.set_torch_agent_store(job.torch_agent_store);
  spec.set_runtime(std::string(model::runtime_word(job.runtime)));
  spec.set_role(job.role);
  for (const model::StagedPath& staged : job.stages) {
    v1::StagedPath& to = *spec.add_stages();
    to.set_source(staged.source);
    to.set_destination(staged.destination);
  }
  spec.set_stage_env(job.stage_env);
  for (const model::Role& role : job.roles) {
    v1::Role& to = *spec.add_roles();
    to.set_name(role.name);
    to.set_size(role.np);
    for (const std::string& word : role.command) to.add_command(word);
    to.set_working_directory(role.workdir);
    to.set_service(role.is_service);
  }
  spec.set_expand_roles(job.expands_roles);
  spec.set_dmlc(job.is_dmlc);
  return spec;
}

v1::SubmitRequest without_values(v1::SubmitRequest request) {
  for (v1::EnvVar& variable : *request.mutable_environment()) variable.clear_value();
  for (v1::RoleEnvironment& role : *request.mutable_role_environment()) {
    for (v1::EnvVar& variable : *role.mutable_environment()) variable.clear_value();
  }
  return request;
}

}  // namespace muster::proto
