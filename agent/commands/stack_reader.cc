// The whole of StackReader. Read ask(), start_next() and start() first, then readable() and take_frames().
// Then read cut(), reap() and end(), by which a reading ends.

#include "agent/commands/stack_reader.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>

namespace muster::agent::inline commands {
namespace {

constexpr std::size_t kMaxReads = 64;

// Leaves out processes that are stopped already. Something else stopped them, so this reader must not continue them.
std::vector<ProcessInfo> running_below(const std::map<int, pid_t>& pids) {
  std::vector<ProcessInfo> running;
  const std::vector<ProcessInfo> table = read_all_processes();
  const auto add = [&running](const ProcessInfo& info) {
    if (info.state != 'T') running.push_back(info);
  };
  for (const auto& [rank, pid] : pids) {
    const auto own = std::ranges::find(table, pid, &ProcessInfo::pid);
    if (own != table.end()) add(*own);
    std::ranges::for_each(descendants(table, pid), add);
  }
  return running;
}

base::Result<pid_t> spawn_reader(const std::string& program, const std::map<int, pid_t>& pids, int output) {
  std::vector<std::string> words = {"muster-agent", "--stacks"};
  for (const auto& [rank, pid] : pids) words.push_back(fmt::format("{}:{}", rank, pid));
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  char* no_environment[] = {nullptr};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  pid_t pid = 0;
  const int failed = ::posix_spawn(&pid, program.c_str(), &actions, nullptr, argv.data(), no_environment);
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return base::errno_error(failed, "start the reading of stacks");
  return pid;
}

}  // namespace

StackReader::StackReader(base::Loop& loop, std::function<void(v1::StackAnswer)> send, Options options)
    : loop_(loop), send_(std::move(send)), options_(std::move(options)) {}

StackReader::~StackReader() {
  if (pid_ == 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void StackReader::ask(std::uint64_t id, const std::map<int, pid_t>& pids) {
  if (waiting_.size() >= kMaxReads) {
    v1::StackAnswer answer;
    answer.set_id(id);
    answer.set_done(true);
    answer.set_problem("this host already runs too many stack readings: try again");
    send_(std::move(answer));
    return;
  }
  waiting_.push_back({.id = id, .pids = pids});
  if (pid_ == 0 && !next_.armed()) start_next();
}

void StackReader::start_next() {
  if (waiting_.empty()) return;
  current_ = std::move(waiting_.front());
  waiting_.pop_front();
  if (current_.pids.empty()) return end("");
  if (const base::Status started = start(); !started.ok()) end(started.message());
}

base::Status StackReader::start() {
  MUSTER_ASSIGN_OR_RETURN(base::FdPair pipe, base::make_pipe());
  running_ = running_below(current_.pids);
  MUSTER_ASSIGN_OR_RETURN(pid_, spawn_reader(options_.program, current_.pids, pipe.second.get()));
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
    for (const ProcessInfo& info : running_) signal_process(info, SIGCONT);
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
