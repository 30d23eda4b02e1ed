// The whole of StackReader. Read ask(), start_next(), open_memories() and start() first, then readable() and
// take_frames(), then cut(), reap() and end(), by which a reading ends.

#include "agent/commands/stack_reader.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <iterator>
#include <mutex>
#include <thread>
#include <utility>

#include "base/file.h"
#include "base/strings.h"
#include "base/thread.h"

namespace muster::agent::inline commands {
namespace {

constexpr std::size_t kMaxReads = 64;
constexpr std::size_t kMaxMemories = 512;

// Returns the processes of the ranks, and those below them.
std::vector<ProcessInfo> processes_below(const std::map<int, pid_t>& pids) {
  std::vector<ProcessInfo> found;
  const std::vector<ProcessInfo> table = read_all_processes();
  for (const auto& [rank, pid] : pids) {
    const auto own = std::ranges::find(table, pid, &ProcessInfo::pid);
    if (own != table.end()) found.push_back(*own);
    std::ranges::copy(descendants(table, pid), std::back_inserter(found));
  }
  return found;
}

}  // namespace

// Memories that a thread opens. The thread and the reader share it. If the reader no longer waits, the thread drops
// what it opens.
struct StackReader::Opening {
  std::mutex mutex;
  Memories memories;
  bool is_abandoned = false;
  bool has_ended = false;
  base::UniqueFd done;  // the thread closes it at its end

  // Returns what is open by now.
  Memories abandon() {
    const std::lock_guard lock(mutex);
    is_abandoned = true;
    return std::move(memories);
  }

  // The body of the thread. Leaves out what cannot be opened: the reading then says why.
  void open_all(const std::vector<ProcessInfo>& processes, const Options& options) {
    for (const ProcessInfo& process : processes) {
      auto memory = options.open_memory(process.pid);
      const std::lock_guard lock(mutex);
      if (is_abandoned) break;
      if (memory.ok()) memories.emplace(process.pid, std::move(*memory));
      if (memories.size() >= kMaxMemories) break;
    }
    const std::lock_guard lock(mutex);
    has_ended = true;
    done.reset();
  }

  bool hangs() {
    const std::lock_guard lock(mutex);
    return !has_ended;
  }
};

namespace {

// `words` are the arguments of the program, its own name included.
base::Result<pid_t> spawn_reader(const std::string& program, std::vector<std::string> words, int output,
                                 const std::map<pid_t, base::UniqueFd>& memories) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  char* no_environment[] = {nullptr};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  // A descriptor that is duplicated onto itself stays open over exec.
  for (const auto& [pid, fd] : memories) ::posix_spawn_file_actions_adddup2(&actions, fd.get(), fd.get());
  pid_t pid = 0;
  const int failed = ::posix_spawn(&pid, program.c_str(), &actions, nullptr, argv.data(), no_environment);
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return base::errno_error(failed, "start the reading of stacks");
  return pid;
}

}  // namespace

bool is_for_parents_only() {
  const auto scope = base::read_file("/proc/sys/kernel/yama/ptrace_scope");
  return scope.ok() && base::trim(*scope) == "1";
}

StackReader::StackReader(base::Loop& loop, std::function<void(v1::StackAnswer)> send, Options options)
    : loop_(loop), send_(std::move(send)), options_(std::move(options)) {}

StackReader::~StackReader() {
  if (opening_) opening_->abandon();
  if (pid_ == 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void StackReader::ask(std::uint64_t id, const std::map<int, pid_t>& pids, bool is_native,
                      std::vector<std::string> options) {
  if (waiting_.size() >= kMaxReads) {
    v1::StackAnswer answer;
    answer.set_id(id);
    answer.set_done(true);
    answer.set_problem("this host already runs too many stack readings: try again");
    send_(std::move(answer));
    return;
  }
  waiting_.push_back({.id = id, .pids = pids, .is_native = is_native, .options = std::move(options)});
  if (pid_ == 0 && !opening_ && !next_.armed()) start_next();
}

void StackReader::start_next() {
  if (waiting_.empty()) return;
  current_ = std::move(waiting_.front());
  waiting_.pop_front();
  if (current_.pids.empty()) return end("");
  const std::vector<ProcessInfo> processes = processes_below(current_.pids);
  // Something else stopped the other processes, so this reader must not continue them.
  running_.clear();
  std::ranges::copy_if(processes, std::back_inserter(running_),
                       [](const ProcessInfo& info) { return info.state != 'T'; });
  // While an earlier thread still hangs, start no other.
  const auto last = last_opening_.lock();
  if (options_.opens_memories && !(last && last->hangs()) && open_memories(processes).ok()) return;
  start_or_end({});
}

// The kernel lets nobody open the memory of a process that hangs in its exec, and the caller waits. So a thread opens
// the memories.
base::Status StackReader::open_memories(const std::vector<ProcessInfo>& processes) {
  MUSTER_ASSIGN_OR_RETURN(base::FdPair pipe, base::make_pipe());
  auto opening = std::make_shared<Opening>();
  opening->done = std::move(pipe.second);
  MUSTER_ASSIGN_OR_RETURN(std::thread thread, base::start_thread([opening, processes, options = options_] {
                            opening->open_all(processes, options);
                          }));
  thread.detach();
  opening_ = opening;
  last_opening_ = opening;
  output_ = std::move(pipe.first);
  watch_ = loop_.on_readable(output_.get(), [this] { memories_opened(); });
  deadline_ = loop_.after(options_.opening_patience, [this] { memories_opened(); });
  return base::ok_status();
}

// Starts the reading from the loop, because the caller is the callback of a timer that the reading replaces.
void StackReader::memories_opened() {
  watch_.cancel();
  deadline_.cancel();
  output_.reset();
  next_ = loop_.after(base::Duration::zero(), [this] {
    next_.cancel();
    start_or_end(std::exchange(opening_, nullptr)->abandon());
  });
}

void StackReader::start_or_end(const Memories& memories) {
  if (const base::Status started = start(memories); !started.ok()) end(started.message());
}

base::Status StackReader::start(const Memories& memories) {
  MUSTER_ASSIGN_OR_RETURN(base::FdPair pipe, base::make_pipe());
  std::vector<std::string> arguments = {"muster-agent", options_.command};
  if (current_.is_native) arguments.push_back("--native");
  arguments.insert(arguments.end(), current_.options.begin(), current_.options.end());
  for (const auto& [pid, fd] : memories) arguments.push_back(fmt::format("--memory={}:{}", pid, fd.get()));
  for (const auto& [rank, pid] : current_.pids) arguments.push_back(fmt::format("{}:{}", rank, pid));
  MUSTER_ASSIGN_OR_RETURN(pid_, spawn_reader(options_.program, std::move(arguments), pipe.second.get(), memories));
  MUSTER_RETURN_IF_ERROR(base::set_nonblocking(pipe.first.get(), true));
  output_ = std::move(pipe.first);
  watch_ = loop_.on_readable(output_.get(), [this] { readable(); });
  deadline_ = loop_.after(options_.patience, [this] {
    cut(fmt::format("no result after {} s: a process may hang in the kernel",
                    std::chrono::duration<double>(options_.patience).count()));
  });
  return base::ok_status();
}

void StackReader::readable() {
  char chunk[64 << 10];
  const ssize_t count = ::read(output_.get(), chunk, sizeof chunk);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0) return end(cut_because_);
  if (!cut_because_.empty()) return;
  frames_.feed({chunk, static_cast<std::size_t>(count)});
  const base::Status taken = take_frames();
  if (!taken.ok()) cut("the reading of stacks failed: " + taken.message());
}

// Kills the reading. It is reaped later, at the end of its output, because a process that hangs in the kernel cannot
// be reaped at once.
void StackReader::cut(const std::string& why) {
  cut_because_ = why;
  ::kill(pid_, SIGKILL);  // no other process can have its pid, because it is our unreaped child
}

base::Status StackReader::take_frames() {
  while (true) {
    MUSTER_ASSIGN_OR_RETURN(const auto body, frames_.next());
    if (!body) return base::ok_status();
    if (options_.take_frame) {
      MUSTER_RETURN_IF_ERROR(options_.take_frame(current_.id, *body));
      continue;
    }
    v1::StackAnswer answer;
    answer.set_id(current_.id);
    if (!answer.mutable_process()->ParseFromString(*body)) {
      return base::invalid_argument("a process cannot be parsed");
    }
    send_(std::move(answer));
  }
}

// Reaps the reading and returns why it failed. Empty if it has read everything.
std::string StackReader::reap() {
  int status = 0;
  ::waitpid(std::exchange(pid_, 0), &status, 0);
  if (WIFSIGNALED(status)) {
    // If a tracer dies between stopping a process and reading it, the process stays stopped. So continue it.
    if (options_.stops_threads) {
      for (const ProcessInfo& info : running_) signal_process(info, SIGCONT);
    }
    return fmt::format("the reading of stacks was ended by signal {}", WTERMSIG(status));
  }
  if (!frames_.is_empty()) return "the reading of stacks ended in the middle of a process";
  return status == 0 ? "" : fmt::format("the reading of stacks ended with exit code {}", WEXITSTATUS(status));
}

void StackReader::end(std::string problem) {
  watch_.cancel();
  deadline_.cancel();
  output_.reset();
  if (pid_ != 0) {
    const std::string how = reap();
    if (problem.empty()) problem = how;
  }
  frames_ = {};
  cut_because_.clear();
  v1::StackAnswer answer;
  answer.set_id(current_.id);
  answer.set_done(true);
  answer.set_problem(problem);
  send_(std::move(answer));
  // Start the next reading from the loop, because the caller may be the callback of the watch that this replaces.
  if (waiting_.empty()) return;
  next_ = loop_.after(base::Duration::zero(), [this] {
    next_.cancel();
    start_next();
  });
}

}  // namespace muster::agent::commands
