#include "launcherd/site/site_run.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <deque>

#include "base/strings.h"

namespace muster::launcherd::inline site {
namespace {

constexpr std::chrono::seconds kOwnEnd{3};
constexpr std::chrono::seconds kSiteTermGrace{2};
constexpr std::size_t kLastLines = 3;

class SiteRun final : public PumpItem {
 public:
  SiteRun(SpawnedChild child, SiteRunEvents events)
      : child_(std::move(child)),
        events_(std::move(events)),
        output_([this](const std::string& line) { on_line(line); }),
        errors_([this](const std::string& line) { on_line(line); }) {}

  ~SiteRun() override {
    if (alone_at_) {
      while (!child_.process->reap() && wait_until(*alone_at_)) {
      }
      child_.process->forget();
    }
    if (kill_at_) {
      while (!has_group_ended() && wait_until(*kill_at_)) {
      }
    }
    child_.process->kill_group();  // no effect if the process was reaped
    child_.process.reset();
  }

  void prepare(std::span<pollfd, kFds> fds) override {
    fds[0] = {has_leader_ended_ ? -1 : child_.process->pidfd(), POLLIN, 0};
    fds[1] = {child_.stdio.get(), POLLIN, 0};
    fds[2] = {child_.errors.get(), POLLIN, 0};
  }

  std::optional<base::MonotonicTime> deadline() const override {
    if (kill_at_) return kill_at_;
    return events_.is_given_up() ? std::optional(base::MonotonicTime{}) : std::nullopt;
  }

  bool serve(std::span<const pollfd, kFds> fds) override {
    read_all();
    if (!kill_at_ && events_.is_given_up()) terminate();
    if (kill_at_) return !has_group_ended() && std::chrono::steady_clock::now() < *kill_at_;
    if (fds[0].revents == 0 || !child_.process->reap()) return true;
    read_all();
    output_.finish();
    errors_.finish();
    std::vector<std::string> lines(last_.begin(), last_.end());
    events_.on_end(child_.process->exit_status(), base::join(lines, "; "));
    return false;
  }

  void ask_to_end() override {
    if (!kill_at_ && events_.has_agents()) {
      alone_at_ = std::chrono::steady_clock::now() + kOwnEnd;
    } else if (!kill_at_) {
      terminate();
    }
  }

 private:
  void on_line(const std::string& line) {
    const std::string text = base::printable(base::trim(line));
    if (text.empty()) return;
    last_.push_back(text);
    if (last_.size() > kLastLines) last_.pop_front();
    events_.on_line(text);
  }

  void read_all() {
    read(child_.stdio, output_);
    read(child_.errors, errors_);
  }

  static void read(base::UniqueFd& fd, LineSplitter& lines) {
    char buffer[4096];
    while (fd.valid()) {
      const ssize_t count = ::read(fd.get(), buffer, sizeof buffer);
      if (count > 0) {
        lines.add({buffer, static_cast<std::size_t>(count)});
        continue;
      }
      if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
      fd.reset();
    }
  }

  void terminate() {
    child_.process->terminate_group();
    kill_at_ = std::chrono::steady_clock::now() + kSiteTermGrace;
  }

  // Remaining processes of the group hold its stdout or stderr open. The leader is not reaped yet, so the kernel cannot
  // reuse the group's number.
  bool has_group_ended() {
    pollfd end{child_.process->pidfd(), POLLIN, 0};
    has_leader_ended_ = ::poll(&end, 1, 0) > 0;
    return has_leader_ended_ && !child_.stdio.valid() && !child_.errors.valid();
  }

  // Returns false once `time` has passed.
  bool wait_until(base::MonotonicTime time) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(time - std::chrono::steady_clock::now());
    if (left.count() <= 0) return false;
    pollfd fds[kFds] = {};
    prepare(fds);
    if (::poll(fds, kFds, static_cast<int>(left.count())) < 0 && errno != EINTR) return false;
    read_all();
    return true;
  }

  SpawnedChild child_;
  const SiteRunEvents events_;
  std::optional<base::MonotonicTime> alone_at_;  // when to let the process live on
  std::optional<base::MonotonicTime> kill_at_;   // when to kill the process; set once the process was asked to end
  bool has_leader_ended_ = false;
  std::deque<std::string> last_;
  LineSplitter output_;
  LineSplitter errors_;
};

}  // namespace

base::Status start_site_run(Pump& pump, const std::vector<std::string>& argv, const std::vector<std::string>& unset,
                            SiteRunEvents events) {
  MUSTER_ASSIGN_OR_RETURN(SpawnedChild child, spawn_child(argv.front(), argv, unset));
  ::shutdown(child.stdio.get(), SHUT_WR);  // the process reads EOF on stdin
  MUSTER_RETURN_IF_ERROR(base::set_nonblocking(child.stdio.get(), true));
  return pump.add(std::make_unique<SiteRun>(std::move(child), std::move(events)));
}

}  // namespace muster::launcherd::site
