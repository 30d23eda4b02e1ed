// The whole of EvidenceCollector. Read ask(), look() and looked() first, which follow the two looks of a question. Then
// read ask_stores() and complete(), which make the answer.

#include "agent/job/evidence_collector.h"

#include <algorithm>

#include <fmt/format.h>

#include "agent/evidence/store_connection.h"
#include "agent/job/evidence_merge.h"
#include "base/strings.h"

namespace muster::agent::inline job {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kMaxOpen = 16;
constexpr milliseconds kMaxApart{10'000};

// Looks read little, and the launcher waits for them.
constexpr milliseconds kLookPatience{4'500};

void add_problem(const std::string& problem, std::string& all) {
  if (problem.empty() || all == problem) return;
  all += all.empty() ? problem : "; " + problem;
}

std::int64_t milliseconds_since(base::MonotonicTime begin, base::MonotonicTime now) {
  return std::max(std::int64_t{0}, std::int64_t{std::chrono::duration_cast<milliseconds>(now - begin).count()});
}

}  // namespace

StackReader::Options EvidenceCollector::look_options() {
  StackReader::Options options;
  options.command = "--looks";
  options.stops_threads = false;
  options.patience = kLookPatience;
  return options;
}

StackReader::Options EvidenceCollector::with_frames(StackReader::Options options) {
  options.take_frame = [this](std::uint64_t key, const std::string& frame) { return take_frame(key, frame); };
  return options;
}

EvidenceCollector::EvidenceCollector(base::Loop& loop, Sources sources, std::function<void(v1::EvidenceAnswer)> send,
                                     StackReader::Options options)
    : loop_(loop),
      sources_(std::move(sources)),
      send_(std::move(send)),
      polls_(sources_.watch_missing),
      reader_(
          loop, [this](const v1::StackAnswer& answer) { looked(answer.id(), answer.problem()); },
          with_frames(std::move(options))) {}

void EvidenceCollector::refuse(std::uint64_t id, const std::string& why) const {
  v1::EvidenceAnswer answer;
  answer.set_id(id);
  answer.set_problem(why);
  send_(std::move(answer));
}

void EvidenceCollector::ask(const v1::EvidenceQuestion& question) {
  if (questions_.size() >= kMaxOpen) {
    return refuse(question.id(), "this host already looks at its ranks for many questions: try again");
  }
  if (sources_.pids().empty()) return refuse(question.id(), "no rank runs on this host");
  const std::uint64_t key = next_key_++;
  Question& asked = questions_[key];
  asked.id = question.id();
  asked.asks_nccl = question.asks_nccl();
  asked.apart = milliseconds(std::clamp<std::int64_t>(question.apart_ms(), 0, kMaxApart.count()));
  look(key);
}

void EvidenceCollector::look(std::uint64_t key) {
  const std::map<int, pid_t> pids = sources_.pids();
  if (pids.empty()) return complete_later(key);
  const Question& question = questions_.at(key);
  std::vector<std::string> options;
  // The second look is the one that is sent. Libraries are not asked twice for it.
  if (question.is_second) options.emplace_back("--libraries");
  if (question.is_second && question.asks_nccl) options.emplace_back("--nccl");
  if (sources_.session_dir) options.push_back("--session=" + sources_.session_dir());
  reader_.ask(key, pids, false, std::move(options));
}

base::Status EvidenceCollector::take_frame(std::uint64_t key, const std::string& frame) {
  v1::EvidenceAnswer answer;
  if (!answer.ParseFromString(frame)) return base::invalid_argument("a rank cannot be parsed");
  const auto found = questions_.find(key);
  if (found == questions_.end()) return base::ok_status();  // answered meanwhile, because the ranks have ended
  Question& question = found->second;
  Look& seen = question.is_second ? question.second : question.first;
  for (v1::RankEvidence& evidence : *answer.mutable_ranks()) {
    seen.at = base::monotonic_now();
    sleeps_.seen(evidence.rank(), static_cast<pid_t>(evidence.pid()), evidence.state(), seen.at);
    seen.ranks[evidence.rank()] = std::move(evidence);
  }
  question.nccl.insert(question.nccl.end(), answer.nccl().begin(), answer.nccl().end());
  return base::ok_status();
}

void EvidenceCollector::looked(std::uint64_t key, const std::string& problem) {
  const auto found = questions_.find(key);
  if (found == questions_.end()) return;
  Question& question = found->second;
  add_problem(problem, question.problem);
  if (question.is_second) return complete_later(key);
  question.is_second = true;
  std::map<int, pid_t> processes;
  for (const auto& [rank, seen] : question.first.ranks) processes.emplace(rank, static_cast<pid_t>(seen.pid()));
  question.polls_since = base::monotonic_now();
  question.polls = polls_.begin(std::move(processes));
  question.second_due = loop_.after(question.apart, [this, key] { look(key); });
}

// Completes the answer from the loop, because the caller may be the callback of a timer that the end of the question
// destroys.
void EvidenceCollector::complete_later(std::uint64_t key) {
  auto done = gate_.wrap([this, key](const std::map<int, LastOutput>& outputs) { ask_stores(key, outputs); });
  if (sources_.last_outputs) return sources_.last_outputs(std::move(done));
  loop_.post([done = std::move(done)] { done(std::map<int, LastOutput>()); });
}

// Asks what the ranks await at torch's store, and completes the answer when all is known.
void EvidenceCollector::ask_stores(std::uint64_t key, const std::map<int, LastOutput>& outputs) {
  const auto found = questions_.find(key);
  if (found == questions_.end()) return;
  struct Asked {
    std::map<int, LastOutput> outputs;
    Waits waits;
    int open = 1;  // counts this function, so that an answer within it does not complete
  };
  const auto asked = std::make_shared<Asked>();
  asked->outputs = outputs;
  const auto end_one = gate_.wrap([this, key, asked] {
    if (--asked->open == 0) complete(key, asked->outputs, asked->waits);
  });
  for (const auto& [rank, seen] : found->second.second.ranks) {
    const auto connections = parse_store_connections(seen.awaits());
    if (!connections.ok() || !sources_.store_wait) continue;
    for (const rendezvous::ConnectionEnds& ends : *connections) {
      ++asked->open;
      sources_.store_wait(ends, [asked, end_one, rank = rank](std::optional<Awaited> wait) {
        const auto known = asked->waits.find(rank);
        if (wait && known == asked->waits.end())
          asked->waits.emplace(rank, std::move(*wait));
        else if (wait && wait->since < known->second.since)
          known->second = std::move(*wait);
        end_one();
      });
    }
  }
  end_one();
}

void EvidenceCollector::complete(std::uint64_t key, const std::map<int, LastOutput>& outputs, const Waits& waits) {
  const auto found = questions_.find(key);
  if (found == questions_.end()) return;
  const Question& question = found->second;
  const std::map<int, pid_t> pids = sources_.pids();
  v1::EvidenceAnswer answer;
  answer.set_id(question.id);
  for (const auto& [rank, pid] : pids) {
    v1::RankEvidence& evidence = *answer.add_ranks();
    evidence = evidence_of(question, rank, pid);
    add_facts(question, outputs, waits, evidence);
  }
  answer.mutable_nccl()->Assign(question.nccl.begin(), question.nccl.end());
  std::string problem = question.problem;
  const auto ended =
      std::ranges::count_if(question.first.ranks, [&](const auto& seen) { return !pids.contains(seen.first); });
  if (ended > 0) add_problem(fmt::format("{} of its ranks ended meanwhile", ended), problem);
  answer.set_problem(base::valid_utf8(problem));
  questions_.erase(found);
  sleeps_.keep_only(pids);
  polls_.keep_only(pids);
  send_(std::move(answer));
}

v1::RankEvidence EvidenceCollector::evidence_of(const Question& question, int rank, pid_t pid) const {
  const auto first = question.first.ranks.find(rank);
  const auto second = question.second.ranks.find(rank);
  const bool has_first = first != question.first.ranks.end();
  if (second != question.second.ranks.end()) {
    const auto between = std::chrono::duration_cast<milliseconds>(question.second.at - question.first.at);
    return merge_looks(has_first ? &first->second : nullptr, second->second, between);
  }
  if (has_first) return merge_looks(nullptr, first->second, milliseconds(0));
  v1::RankEvidence evidence;
  evidence.set_rank(rank);
  evidence.set_pid(pid);
  evidence.set_problem("it could not be looked at");
  return evidence;
}

void EvidenceCollector::add_facts(const Question& question, const std::map<int, LastOutput>& outputs,
                                  const Waits& waits, v1::RankEvidence& evidence) const {
  const int rank = evidence.rank();
  const base::MonotonicTime now = base::monotonic_now();
  if (const auto slept = sleeps_.of(rank, static_cast<pid_t>(evidence.pid()))) evidence.set_state_ms(slept->count());
  if (const auto output = outputs.find(rank); output != outputs.end()) {
    evidence.set_last_line(output->second.line);
    evidence.set_silent_ms(milliseconds_since(output->second.at, now));
  }
  auto awaited = sources_.awaited ? sources_.awaited(rank) : std::nullopt;
  if (question.is_second) awaited = older(std::move(awaited), polls_.awaited(rank, question.polls_since));
  if (const auto wait = waits.find(rank); wait != waits.end()) awaited = older(std::move(awaited), wait->second);
  evidence.clear_awaits();  // a look has filled it with connections
  if (awaited) {
    evidence.set_awaits(base::valid_utf8(awaited->what));
    evidence.set_awaits_ms(milliseconds_since(awaited->since, now));
  }
  auto place = sources_.collective ? sources_.collective(rank) : std::nullopt;
  if (place) *evidence.mutable_collective() = std::move(*place);
}

void EvidenceCollector::end(const std::string& why) {
  for (const auto& [key, question] : std::exchange(questions_, {})) refuse(question.id, why);
}

}  // namespace muster::agent::job
