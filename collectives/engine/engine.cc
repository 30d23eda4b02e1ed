// The engine: submissions from any thread, and the thread that negotiates and runs them.
// Read submit() first, then run(), work() and turn(), then end(), which fails what is left.
#include "collectives/engine/engine.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <exception>
#include <numeric>
#include <system_error>
#include <utility>

#include "collectives/call/notice.h"
#include "collectives/engine/announcement.h"

namespace muster::collectives::inline engine {
namespace {

using std::chrono::microseconds;

// kEngineAwake is the time for which the thread polls for submissions before it sleeps. The other two are the shortest
// and the longest pause after a turn that made nothing due.
constexpr microseconds kEngineAwake{60};
constexpr microseconds kFirstPause{20};
constexpr microseconds kLongestPause{1000};
// Wait for idle ranks without a deadline. If a rank ends, the launcher reports it. If a rank is late, StallWatch
// reports it.
constexpr std::chrono::hours kNoDeadline{24 * 365};

constexpr std::uint64_t kMostAnnounced = std::uint64_t{1} << 30;  // limit for one rank in one turn
constexpr std::chrono::milliseconds kEndReportTime{800};          // from a rank's last message to the report of its end
constexpr std::size_t kNamesKept = 1024;  // names of finished tensors that are kept, since most tensors come again

Failure shut_down_by(const Communicator& comm, int rank) {
  const Member& member = comm.world().member(comm.world_rank(rank));
  return {base::Code::kAborted, member.rank, member.host,
          fmt::format("rank {} ({}) has shut down", member.rank, member.host)};
}

// The engine owns each ticket until the ticket is done. So an expired pointer means that its ticket is done.
bool is_running(const std::weak_ptr<Ticket>& ticket) {
  const std::shared_ptr<Ticket> kept = ticket.lock();
  return kept != nullptr && !kept->is_done();
}

// Reports to the user that a rank takes part in no turn. Every running rank takes part now and then, whatever its
// program does. So the absent rank is stopped or cut off. Only one rank reports it.
void report_absent(const Communicator& control, int own, const Failure& late) {
  const bool first_is_late = late.rank == control.world_rank(0);
  if (own != (first_is_late ? 1 : 0)) return;
  print_notice(
      fmt::format("rank {} ({}) no longer takes part in collectives: is it stopped, or cut off from the other ranks?",
                  late.rank, late.host));
}

std::vector<int> numbers_of(const Communicator& comm) {
  std::vector<int> numbers;
  for (int rank = 0; rank < comm.size(); ++rank) numbers.push_back(comm.world_rank(rank));
  return numbers;
}

}  // namespace

// The words that a rank sends before the bits of the cache. Only rank 0's last two values count.
struct Engine::Head {
  std::uint64_t is_shutting_down;
  std::uint64_t announced_bytes;
  std::uint64_t fusion_bytes;
  std::uint64_t cycle;  // microseconds
  static constexpr std::size_t kWords = 4;
};

Engine::Engine(std::shared_ptr<Communicator> data, std::shared_ptr<Communicator> control, EngineSettings settings)
    : data_(std::move(data)),
      control_(std::move(control)),
      settings_(std::move(settings)),
      tuned_{settings_.fusion_bytes, settings_.cycle},
      executor_(data_),
      negotiation_(data_->size(), data_->rank(), settings_.cache_capacity, numbers_of(*data_)) {}

base::Result<std::unique_ptr<Engine>> Engine::start(Communicator& communicator, const EngineSettings& settings) {
  std::vector<int> all(static_cast<std::size_t>(communicator.size()));
  std::iota(all.begin(), all.end(), 0);
  MUSTER_ASSIGN_OR_RETURN(auto data, communicator.group(all));
  MUSTER_ASSIGN_OR_RETURN(auto control, communicator.group(all));
  data->hide_from_status();  // the page shows the operations of the user
  control->hide_from_status();
  // These settings must be the same on all ranks, so rank 0's values count.
  std::array<std::uint64_t, 3> agreed{settings.cache_capacity, settings.fuses_groups ? 1U : 0U,
                                      settings.is_hierarchical ? 1U : 0U};
  MUSTER_RETURN_IF_ERROR(control->broadcast(agreed.data(), agreed.size(), DType::kI64, 0));
  EngineSettings own = settings;
  own.cache_capacity = agreed[0];
  own.fuses_groups = agreed[1] != 0;
  own.is_hierarchical = agreed[2] != 0;
  if (own.is_hierarchical) data->prefer(AllreduceAlgorithm::kHierarchical);
  control->set_deadline(kNoDeadline);
  if (own.stall.is_checked && own.stall.is_reported) {
    control->on_late(
        std::max(own.stall.warning, 2 * idle_time(own.stall)),
        [rank = control->rank(), all = control.get()](const Failure& late) { report_absent(*all, rank, late); });
  }
  std::unique_ptr<Engine> engine(new Engine(std::move(data), std::move(control), std::move(own)));
  engine->numbers_operations_ = engine->size() == communicator.world().size() && status_claim_engine();
  MUSTER_RETURN_IF_ERROR(engine->start_threads());
  return engine;
}

base::Status Engine::start_threads() {
  if (rank() == 0 && settings_.autotune.is_on) {
    MUSTER_ASSIGN_OR_RETURN(autotuner_, Autotuner::create(settings_.autotune, tuned_));
  }
  if (!settings_.timeline.empty()) MUSTER_RETURN_IF_ERROR(set_timeline(settings_.timeline, settings_.marks_turns));
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& problem) {
    return base::resource_exhausted("cannot start the engine's thread: {}", problem.what());
  }
  if (!settings_.stall.is_checked || size() == 1) return base::ok_status();
  StallWatch::Engine watched{.late = [this] { return late(); },
                             .name_of_rank = [this](int rank) { return name_of_rank(rank); },
                             .end =
                                 [this](const std::string& why) {
                                   cancel({base::Code::kAborted, -1, "", why});
                                 },
                             .reports = rank() == 0};
  MUSTER_ASSIGN_OR_RETURN(watch_, StallWatch::start(settings_.stall, std::move(watched)));
  return base::ok_status();
}

std::string Engine::name_of_rank(int rank) const {
  const int world_rank = data_->world_rank(rank);
  return fmt::format("{} ({})", world_rank, data_->world().member(world_rank).host);
}

Engine::~Engine() {
  watch_.reset();
  shut_down(std::chrono::milliseconds(0));
  bool is_over = false;
  {
    const std::lock_guard lock(mutex_);
    is_over = is_over_;
  }
  if (!is_over) cancel(shut_down_by(*data_, rank()));
  if (thread_.joinable()) thread_.join();
  if (numbers_operations_) status_release_engine();
}

// Cancels both communicators, so that ranks stop waiting in either.
void Engine::cancel(const Failure& why) {
  control_->cancel(why);
  data_->cancel(why);
}

base::Result<std::shared_ptr<Ticket>> Engine::submit(Submission submission) {
  MUSTER_RETURN_IF_ERROR(check(submission.signature, size()));
  if (submission.tensors.size() != submission.signature.tensors.size()) {
    return base::invalid_argument("'{}': {} tensors are described but {} are passed", submission.name,
                                  submission.signature.tensors.size(), submission.tensors.size());
  }
  auto ticket = std::make_shared<Ticket>();
  std::shared_ptr<Ticket> handle = Ticket::handle_of(ticket);
  std::int64_t submitted_ns = 0;
  {
    const std::lock_guard lock(mutex_);
    MUSTER_RETURN_IF_ERROR(ended_);
    std::weak_ptr<Ticket>& in_use = in_flight_[submission.name];
    if (is_running(in_use)) {
      return base::already_exists("a tensor named '{}' is in flight: use another name, or wait for that tensor",
                                  submission.name);
    }
    in_use = ticket;
    if (base::RankPage* const page = status_page()) {
      submitted_ns = status_now();
      status_begin(*page, name_of(submission.signature.kind), submission.name, submitted_ns);
      ticket->page_ = page;
    }
    submitted_.push_back({std::move(submission), ticket, submitted_ns});
    changes_.fetch_add(1, std::memory_order_release);
  }
  changed_.notify_one();
  return handle;
}

void Engine::shut_down(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  is_stopping_ = true;
  changes_.fetch_add(1, std::memory_order_release);
  changed_.notify_one();
  over_.wait_for(lock, time, [this] { return is_over_; });
}

std::vector<Negotiation::Late> Engine::late() const {
  {
    const std::lock_guard lock(mutex_);
    if (is_over_) return {};
  }
  const std::lock_guard lock(negotiation_mutex_);
  return negotiation_.late();
}

Failure Engine::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

base::Status Engine::set_timeline(const std::string& path, bool marks_turns) {
  if (rank() != 0) return base::ok_status();
  std::shared_ptr<Timeline> timeline;
  if (!path.empty()) {
    MUSTER_ASSIGN_OR_RETURN(timeline, Timeline::start(path, marks_turns));
  }
  const std::lock_guard lock(mutex_);
  timeline_.swap(timeline);
  has_new_timeline_ = true;
  return base::ok_status();
}

// Returns whether there were any submissions.
bool Engine::take_submissions() {
  std::vector<Executor::Work> taken;
  {
    const std::lock_guard lock(mutex_);
    taken.swap(submitted_);
    changes_.store(0, std::memory_order_relaxed);
    if (in_flight_.size() >= sweep_at_) {
      std::erase_if(in_flight_, [](const auto& named) { return !is_running(named.second); });
      sweep_at_ = 2 * in_flight_.size() + kNamesKept;
    }
  }
  const std::lock_guard lock(negotiation_mutex_);
  for (Executor::Work& work : taken) {
    negotiation_.submit({work.submission.name, work.submission.signature});
    std::string name = work.submission.name;
    pending_.insert_or_assign(std::move(name), std::move(work));
  }
  return !taken.empty();
}

// Returns false if no submission arrived for so long that the other ranks should learn that this rank is idle.
bool Engine::wait_for_submissions() {
  const auto end = std::chrono::steady_clock::now() + kEngineAwake;
  while (changes_.load(std::memory_order_acquire) == 0 && std::chrono::steady_clock::now() < end) sched_yield();
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, idle_time(settings_.stall),
                           [this] { return changes_.load(std::memory_order_relaxed) != 0 || is_stopping_; });
}

// Waits as HOROVOD_CYCLE_TIME requests. Tensors that are submitted during the wait join the same turn.
void Engine::wait_for_cycle() {
  if (tuned_.cycle.count() == 0) return;
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, last_turn_ + tuned_.cycle, [this] { return is_stopping_.load(); });
}

void Engine::pin() const {
  if (!settings_.affinity) return;
  const auto& cores = *settings_.affinity;
  const int core = cores[static_cast<std::size_t>(data_->local_rank()) % cores.size()];
  cpu_set_t set;
  CPU_ZERO(&set);
  if (core < CPU_SETSIZE) CPU_SET(core, &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0) {
    print_notice(fmt::format("HOROVOD_THREAD_AFFINITY: the thread of rank {} cannot run on core {}: {}",
                             data_->world_rank(rank()), core, std::strerror(errno)));
  }
}

void Engine::run() {
  pin();
  base::Status status;
  try {
    status = work();
  } catch (const std::exception& problem) {  // the standard library throws when memory runs out
    status = base::resource_exhausted("rank {} ({}): out of memory in an operation ({})", data_->world_rank(rank()),
                                      data_->world().member(data_->world_rank(rank())).host, problem.what());
  }
  end(status);
}

// Runs until something fails or a rank shuts down, and returns the reason.
base::Status Engine::work() {
  base::Status status;
  microseconds pause = kFirstPause;
  while (status.ok()) {
    const bool has_new = take_submissions();
    if (!negotiation_.is_waiting() && !is_stopping_ && wait_for_submissions()) continue;
    wait_for_cycle();
    bool has_progressed = take_submissions() || has_new;
    const bool is_waiting = negotiation_.is_waiting();
    status = turn(has_progressed);
    if (has_progressed || !is_waiting) {
      pause = kFirstPause;
      continue;
    }
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, pause, [this] { return changes_.load(std::memory_order_relaxed) != 0; });
    if (pause < kLongestPause && 2 * pause >= kLongestPause) show_oldest();
    pause = std::min(2 * pause, kLongestPause);
  }
  return status;
}

base::Status Engine::turn(bool& has_progressed) {
  Announcements own;
  {
    const std::lock_guard lock(negotiation_mutex_);
    own = negotiation_.announcements();
  }
  MUSTER_ASSIGN_OR_RETURN(const std::vector<Announcements> announcements, exchange(own));
  std::shared_ptr<Timeline> timeline;
  if (rank() == 0) {
    const std::lock_guard lock(mutex_);
    timeline = timeline_;
    if (std::exchange(has_new_timeline_, false)) negotiated_.clear();
  }
  if (timeline != nullptr) show(*timeline, announcements);
  std::vector<Due> due;
  {
    const std::lock_guard lock(negotiation_mutex_);
    due = negotiation_.decide(announcements);
  }
  has_progressed = has_progressed || !due.empty();
  if (timeline != nullptr) show_due(*timeline, due);
  return do_due(due, timeline.get());
}

base::Result<std::vector<Announcements>> Engine::exchange(const Announcements& own) {
  std::vector<std::byte> announced;
  for (const Announcement& announcement : own.announced) write(announcement, announced);
  const auto ranks = static_cast<std::size_t>(size());
  const std::size_t words = Head::kWords + own.cached.size();
  std::vector<std::uint64_t> head(words);
  const Head own_head{.is_shutting_down = is_stopping_ ? 1U : 0U,
                      .announced_bytes = announced.size(),
                      .fusion_bytes = tuned_.fusion_bytes,
                      .cycle = static_cast<std::uint64_t>(tuned_.cycle.count())};
  static_assert(sizeof own_head == Head::kWords * sizeof(std::uint64_t));
  std::memcpy(head.data(), &own_head, sizeof own_head);
  std::ranges::copy(own.cached, head.begin() + Head::kWords);
  std::vector<std::uint64_t> heads(words * ranks);
  std::vector<std::size_t> counts(ranks, words);
  MUSTER_RETURN_IF_ERROR(control_->allgather(head.data(), heads.data(), counts, DType::kI64, true));
  last_turn_ = std::chrono::steady_clock::now();
  MUSTER_ASSIGN_OR_RETURN(std::vector<Announcements> announcements, decode_heads(heads, words, counts));
  const std::size_t sum = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  if (sum == 0) return announcements;
  std::vector<std::byte> all(sum);
  MUSTER_RETURN_IF_ERROR(control_->allgather(announced.data(), all.data(), counts, DType::kU8, false));
  std::size_t at = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    MUSTER_ASSIGN_OR_RETURN(announcements[rank].announced,
                            read_announcements(std::span(all).subspan(at, counts[rank]), size()));
    at += counts[rank];
  }
  return announcements;
}

// Decodes the heads of all ranks, each of `words` words. Returns the cached bits. Sets the number of bytes that each
// rank announces.
base::Result<std::vector<Announcements>> Engine::decode_heads(std::span<const std::uint64_t> heads, std::size_t words,
                                                              std::vector<std::size_t>& announced_bytes) {
  std::vector<Announcements> announcements(announced_bytes.size());
  for (std::size_t rank = 0; rank < announcements.size(); ++rank) {
    const auto of_rank = heads.subspan(rank * words, words);
    Head head{};
    std::memcpy(&head, of_rank.data(), sizeof head);
    if (head.is_shutting_down != 0) {
      left_ = shut_down_by(*data_, static_cast<int>(rank));
      return base::Status(left_.code, left_.message);
    }
    announcements[rank].cached.assign(of_rank.begin() + Head::kWords, of_rank.end());
    if (head.announced_bytes > kMostAnnounced) {
      return base::data_loss("rank {} announced {} bytes in one turn, which is too much",
                             data_->world_rank(static_cast<int>(rank)), head.announced_bytes);
    }
    announced_bytes[rank] = head.announced_bytes;
    if (rank == 0) tuned_ = {head.fusion_bytes, microseconds(static_cast<std::int64_t>(head.cycle))};
  }
  return announcements;
}

void Engine::show(Timeline& timeline, std::span<const Announcements> announcements) {
  timeline.turn();
  for (const Negotiation::Ready& ready : negotiation_.newly_ready(announcements)) {
    if (negotiated_.insert(ready.name).second) {
      timeline.begin(ready.name, fmt::format("NEGOTIATE_{}", phase_of(ready.kind)));
    }
    timeline.ready(ready.name, ready.rank);
  }
}

void Engine::show_due(Timeline& timeline, std::span<const Due> due) {
  for (const Due& one : due) {
    if (negotiated_.erase(one.name) > 0) timeline.end(one.name);
  }
}

// All ranks run the same operations in the same order, so they give them the same numbers.
void Engine::show_arrival(const Executor::Work* own) {
  ++operations_;
  base::RankPage* const page = status_page();
  if (page == nullptr || own == nullptr || !numbers_operations_) return;
  arrivals_.arrive(*page, operations_, status_coarse_now(), own->submitted_ns);
}

// Shows the operation for which this rank has waited longest. Other ranks have not submitted it yet.
void Engine::show_oldest() const {
  base::RankPage* const page = status_page();
  const auto oldest =
      std::ranges::min_element(pending_, {}, [](const auto& named) { return named.second.submitted_ns; });
  if (page == nullptr || oldest == pending_.end()) return;
  status_show(*page, name_of(oldest->second.submission.signature.kind), oldest->first, oldest->second.submitted_ns);
}

base::Status Engine::do_due(const std::vector<Due>& due, Timeline* timeline) {
  std::vector<Executor::Work*> own;
  std::size_t bytes = 0;
  for (const Due& one : due) {
    const auto found = pending_.find(one.name);
    // A joined rank takes part in tensors that it has not submitted. Since joining, it may have submitted another
    // tensor of the same name.
    const bool is_join = one.last_joined >= 0;
    const bool is_ours = is_join || one.of_ranks[static_cast<std::size_t>(rank())].has_value();
    own.push_back(found == pending_.end() || !is_ours ? nullptr : &found->second);
    show_arrival(is_join ? nullptr : own.back());
    if (own.back() != nullptr) bytes += own.back()->submission.signature.bytes();
  }
  MUSTER_RETURN_IF_ERROR(executor_.run(
      due, own, {.fusion_bytes = tuned_.fusion_bytes, .fuses_groups = settings_.fuses_groups, .timeline = timeline}));
  for (std::size_t i = 0; i < due.size(); ++i) {
    if (own[i] != nullptr) pending_.erase(due[i].name);
  }
  if (autotuner_ && bytes > 0) tuned_ = autotuner_->record(bytes, std::chrono::steady_clock::now());
  return base::ok_status();
}

// A rank that shuts down is usually about to end, and the user wants to know how it ended. So wait for the report of
// that end before this rank fails because of the shutdown.
Failure Engine::explain_end(const Failure& left) {
  const bool is_own_end = is_stopping_ || (pending_.empty() && !has_submissions());
  if (is_own_end || left.rank == data_->world_rank(rank())) return left;
  const auto end = data_->world().wait_for_end(left.rank, kEndReportTime);
  if (!end) return left;
  return {base::Code::kUnavailable, left.rank, left.host,
          fmt::format("rank {} ({}) {}", left.rank, left.host, end->cause)};
}

bool Engine::has_submissions() {
  const std::lock_guard lock(mutex_);
  return !submitted_.empty();
}

void Engine::end(base::Status why) {
  if (left_.code != base::Code::kOk) {
    left_ = explain_end(left_);
    why = base::Status(left_.code, left_.message);
  }
  Failure failure = left_.code != base::Code::kOk ? left_ : data_->failure();
  if (failure.code == base::Code::kOk) failure = control_->failure();
  if (failure.code == base::Code::kOk) failure = {why.code(), -1, "", why.message()};
  // Cancel, because the other ranks may wait in an operation that this rank has left.
  cancel(failure);
  const std::lock_guard lock(mutex_);
  ended_ = why;
  failure_ = std::move(failure);
  for (auto& [name, work] : pending_) {
    if (!work.ticket->is_done()) work.ticket->finish(why, failure_);
  }
  for (Executor::Work& work : submitted_) work.ticket->finish(why, failure_);
  submitted_.clear();
  is_over_ = true;
  over_.notify_all();
}

}  // namespace muster::collectives::engine
