// Reads hvdrun's stdin for the ranks: as much as they take and only while one of them reads, so that little is lost of
// what the next program of a shell script should get.
//
// Never stops the process: a terminal is read only while this process group is in its foreground, and looked at again
// twice a second while it is not. Flags of the shared descriptor stay as they are. Loop thread only; outlives the
// runners that it is given to.
#pragma once

#include <functional>

#include "base/loop.h"
#include "base/unique_fd.h"
#include "cli/view/raw_terminal.h"
#include "launcherd/run/input_feed.h"
#include "model/job_input.h"

namespace muster::cli::inline view {

// What kAuto means with this stdin: a pipe, a socket or a terminal whose foreground we are goes to rank 0; a file,
// /dev/null or a terminal in the background to nobody.
model::JobInput settle_input(model::JobInput wanted, int fd);

struct StdinReaderOptions {
  bool reads = false;                         // else the ranks' input ends at once
  bool wants_raw = false;                     // a terminal is raw while they read
  std::function<void(bool is_raw)> on_raw{};  // its mode has changed
};

class StdinReader final : public launcherd::InputSource {
 public:
  StdinReader(base::Loop& loop, int fd, StdinReaderOptions options);
  ~StdinReader() override { stop(); }

  void prepare() override;
  void start(launcherd::InputFeed& feed) override;
  void has_room() override { wait(); }
  void stop() override;

  void pause();   // this process is about to be stopped (Ctrl-Z)
  void resume();  // it has been continued, perhaps in the background

 private:
  void wait();
  void read_some();
  void enter_raw();
  void leave_raw();

  base::Loop& loop_;
  const int fd_;
  const StdinReaderOptions options_;
  bool is_terminal_ = false;
  bool is_socket_ = false;
  bool is_file_ = false;   // always readable
  base::UniqueFd own_fd_;  // the same pipe or terminal, opened again with O_NONBLOCK; invalid where that is impossible
  launcherd::InputFeed* feed_ = nullptr;
  bool is_over_ = false;  // its end was read
  bool is_paused_ = false;
  bool is_raw_ = false;
  RawTerminal raw_;
  base::Timer watch_;
  base::Timer again_;
};

}  // namespace muster::cli::view
