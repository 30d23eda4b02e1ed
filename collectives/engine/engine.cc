#include "collectives/engine/engine.h"

#include <sched.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <system_error>
#include <utility>

#include "collectives/engine/announcement.h"

namespace muster::collectives {
namespace {

using std::chrono::microseconds;

// How long the thread looks for submissions before it sleeps; how long it waits, at least and at most, after a turn
// that brought nothing.
constexpr microseconds kAwake{60};
constexpr microseconds kFirstPause{20};
constexpr microseconds kLongestPause{1000};
// Ranks that have nothing to do are waited for: what is wrong is seen by other means (a rank that ends) or told as
// late.
constexpr std::chrono::hours kNoDeadline{24 * 365};

// What precedes the bits of the cache in what a rank says.
struct Head {
  std::uint64_t is_shutting_down;
  std::uint64_t announced_bytes;
};
constexpr std::size_t kNamesKept = 1024;  // of tensors that are done: most come again
constexpr std::size_t kHeadWords = sizeof(Head) / sizeof(std::uint64_t);

base::Status shut_down_status(int rank) {
  return base::error(base::Code::kAborted, "rank {} has shut down", rank);
}

}  // namespace

Engine::Engine(std::shared_ptr<Communicator> data, std::shared_ptr<Communicator> control, EngineOptions options)
    : data_(std::move(data)),
      control_(std::move(control)),
      negotiation_(data_->size(), data_->rank(), options.cache_capacity),
      executor_(data_, options.fusion_bytes) {}

base::Result<std::unique_ptr<Engine>> Engine::start(Communicator& communicator, EngineOptions options) {
  std::vector<int> all(static_cast<std::size_t>(communicator.size()));
  std::iota(all.begin(), all.end(), 0);
  MUSTER_ASSIGN_OR_RETURN(auto data, communicator.group(all));
  MUSTER_ASSIGN_OR_RETURN(auto control, communicator.group(all));
  control->set_deadline(kNoDeadline);
  std::unique_ptr<Engine> engine(new Engine(std::move(data), std::move(control), options));
  try {
    engine->thread_ = std::thread([running = engine.get()] { running->run(); });
  } catch (const std::system_error& problem) {
    return base::error(base::Code::kResourceExhausted, "no thread for the engine: {}", problem.what());
  }
  return engine;
}

Engine::~Engine() {
  shut_down(std::chrono::milliseconds(0));
  control_->cancel("this rank has ended its engine");
  if (thread_.joinable()) thread_.join();
}

base::Result<std::shared_ptr<Ticket>> Engine::submit(Submission submission) {
  MUSTER_RETURN_IF_ERROR(check(submission.signature, size()));
  if (submission.tensors.size() != submission.signature.tensors.size()) {
    return base::error(base::Code::kInvalidArgument, "'{}': {} tensors are described and {} given", submission.name,
                       submission.signature.tensors.size(), submission.tensors.size());
  }
  auto ticket = std::make_shared<Ticket>();
  {
    const std::lock_guard lock(mutex_);
    MUSTER_RETURN_IF_ERROR(ended_);
    auto& taken = in_flight_[submission.name];
    if (taken != nullptr && !taken->is_done()) {
      return base::error(base::Code::kAlreadyExists,
                         "a tensor named '{}' is in flight: give this one another name, or wait for that one",
                         submission.name);
    }
    taken = ticket;
    submitted_.push_back({std::move(submission), ticket});
    has_news_.fetch_add(1, std::memory_order_release);
  }
  news_.notify_one();
  return ticket;
}

void Engine::shut_down(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  is_stopping_ = true;
  has_news_.fetch_add(1, std::memory_order_release);
  news_.notify_one();
  over_.wait_for(lock, time, [this] { return is_over_; });
}

std::vector<Negotiation::Late> Engine::late() const {
  const std::lock_guard lock(negotiation_mutex_);
  return negotiation_.late();
}

// Whether there were any.
bool Engine::take_submissions() {
  std::vector<Executor::Work> taken;
  {
    const std::lock_guard lock(mutex_);
    taken.swap(submitted_);
    has_news_.store(0, std::memory_order_relaxed);
    if (in_flight_.size() >= sweep_at_) {
      std::erase_if(in_flight_, [](const auto& named) { return named.second->is_done(); });
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

void Engine::wait_for_submissions() {
  const auto end = std::chrono::steady_clock::now() + kAwake;
  while (has_news_.load(std::memory_order_acquire) == 0 && std::chrono::steady_clock::now() < end) sched_yield();
  std::unique_lock lock(mutex_);
  news_.wait(lock, [this] { return has_news_.load(std::memory_order_relaxed) != 0 || is_stopping_; });
}

void Engine::run() {
  base::Status status;
  microseconds pause = kFirstPause;
  while (status.ok()) {
    const bool has_new = take_submissions();
    if (!negotiation_.is_waiting() && !is_stopping_) {
      wait_for_submissions();
      continue;
    }
    bool has_progressed = has_new;
    status = turn(has_progressed);
    if (has_progressed) {
      pause = kFirstPause;
      continue;
    }
    std::unique_lock lock(mutex_);
    news_.wait_for(lock, pause, [this] { return has_news_.load(std::memory_order_relaxed) != 0; });
    pause = std::min(2 * pause, kLongestPause);
  }
  end(status);
}

base::Status Engine::turn(bool& has_progressed) {
  Said own;
  {
    const std::lock_guard lock(negotiation_mutex_);
    own = negotiation_.say();
  }
  MUSTER_ASSIGN_OR_RETURN(const std::vector<Said> said, exchange(own));
  std::vector<Due> due;
  {
    const std::lock_guard lock(negotiation_mutex_);
    due = negotiation_.hear(said);
  }
  has_progressed = has_progressed || !due.empty();
  return do_due(due);
}

base::Result<std::vector<Said>> Engine::exchange(const Said& own) {
  std::vector<std::byte> announced;
  for (const Announcement& announcement : own.announced) write(announcement, announced);
  const auto ranks = static_cast<std::size_t>(size());
  const std::size_t words = kHeadWords + own.cached.size();
  std::vector<std::uint64_t> head(words);
  const Head own_head{.is_shutting_down = is_stopping_ ? 1U : 0U, .announced_bytes = announced.size()};
  std::memcpy(head.data(), &own_head, sizeof own_head);
  std::ranges::copy(own.cached, head.begin() + kHeadWords);
  std::vector<std::uint64_t> heads(words * ranks);
  std::vector<std::size_t> counts(ranks, words);
  MUSTER_RETURN_IF_ERROR(control_->allgather(head.data(), heads.data(), counts, DType::kI64, true));
  std::vector<Said> said(ranks);
  std::size_t sum = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    Head of_rank{};
    std::memcpy(&of_rank, &heads[rank * words], sizeof of_rank);
    if (of_rank.is_shutting_down != 0) return shut_down_status(data_->world_rank(static_cast<int>(rank)));
    const auto bits = heads.begin() + static_cast<std::ptrdiff_t>(rank * words + kHeadWords);
    said[rank].cached.assign(bits, bits + static_cast<std::ptrdiff_t>(own.cached.size()));
    counts[rank] = of_rank.announced_bytes;
    sum += counts[rank];
  }
  if (sum == 0) return said;
  std::vector<std::byte> all(sum);
  MUSTER_RETURN_IF_ERROR(control_->allgather(announced.data(), all.data(), counts, DType::kU8, false));
  std::size_t at = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    MUSTER_ASSIGN_OR_RETURN(said[rank].announced, read_announcements(std::span(all).subspan(at, counts[rank])));
    at += counts[rank];
  }
  return said;
}

base::Status Engine::do_due(const std::vector<Due>& due) {
  std::vector<Executor::Work*> own;
  for (const Due& one : due) {
    const auto found = pending_.find(one.name);
    own.push_back(found == pending_.end() ? nullptr : &found->second);
  }
  MUSTER_RETURN_IF_ERROR(executor_.run(due, own));
  for (const Due& one : due) pending_.erase(one.name);
  return base::ok_status();
}

void Engine::end(const base::Status& why) {
  const std::lock_guard lock(mutex_);
  ended_ = why;
  for (auto& [name, work] : pending_) {
    if (!work.ticket->is_done()) work.ticket->finish(why);
  }
  for (Executor::Work& work : submitted_) work.ticket->finish(why);
  submitted_.clear();
  is_over_ = true;
  over_.notify_all();
}

}  // namespace muster::collectives
