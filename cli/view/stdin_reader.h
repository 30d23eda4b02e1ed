// Reads hvdrun's stdin for the ranks. It reads only as much as they take, and only while one of them reads. So little
// input is lost for the next program of a shell script.
// It never stops the process: it reads a terminal only while this process group is in the foreground. Otherwise it
// polls the terminal twice a second. The flags of the shared descriptor stay unchanged.
// Thread: loop thread only. Owner: it must outlive the runners that use it.
#pragma once

#include <functional>

#include "base/loop.h"
#include "base/unique_fd.h"
#include "cli/view/raw_terminal.h"
#include "launcherd/run/input_feed.h"
#include "model/job_input.h"

namespace muster::cli::inline view {

// Resolves kAuto for this stdin. Rank 0 gets a pipe, a socket, or a terminal that has this process group in its
// foreground. No rank gets a file, /dev/null, or a terminal in the background.
model::JobInput settle_input(model::JobInput wanted, int fd);

struct StdinReaderOptions {
  bool reads = false;                         // if false, the ranks' input ends at once
  bool wants_raw = false;                     // a terminal is in raw mode while the ranks read
  std::function<void(bool is_raw)> on_raw{};  // called when the terminal's mode has changed
};

class StdinReader final : public launcherd::InputSource {
 public:
  StdinReader(base::Loop& loop, int fd, StdinReaderOptions options);
  ~StdinReader() override { stop(); }

  void prepare() override;
  void start(launcherd::InputFeed& feed) override;
  void has_room() override { wait(); }
  void stop() override;

  void pause();   // call it before this process is stopped (Ctrl-Z)
  void resume();  // call it when this process was continued, perhaps in the background

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
  bool is_file_ = false;  // a file is always readable
  // The same pipe or terminal, opened again with O_NONBLOCK. Invalid if that is impossible.
  base::UniqueFd own_fd_;
  launcherd::InputFeed* feed_ = nullptr;
  bool is_over_ = false;  // the end of the input was read
  bool is_paused_ = false;
  bool is_raw_ = false;
  RawTerminal raw_;
  base::Timer watch_;
  base::Timer again_;
};

}  // namespace muster::cli::view
