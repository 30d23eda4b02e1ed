// Passes the launcher's stdin on to the ranks that read it. It decides how much the source may send, and when no rank
// reads any longer.
//
// Each byte goes to all reading ranks at once, so a slow rank holds back the others. At most proto::kInputWindow bytes
// wait for the slowest rank. The feed reads nothing before all reading ranks run.
//
// Owner: the job's runner, which reports to it what happens to the ranks.
// Thread: loop thread only.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string_view>
#include <vector>

namespace muster::launcherd::inline run {

class InputFeed;

// Reads the launcher's stdin. It serves one feed after the other, and outlives them.
class InputSource {
 public:
  virtual ~InputSource() = default;
  virtual void prepare() = 0;               // called when the ranks are being started; they may write before start()
  virtual void start(InputFeed& feed) = 0;  // the ranks run and read; `feed` exists until stop()
  virtual void has_room() = 0;              // feed.room() was 0 and is now larger
  virtual void stop() = 0;                  // no rank reads any longer, or none ever did
};

class InputFeed {
 public:
  // Sends bytes to these ranks. `ends` means that nothing follows `bytes`.
  using Send = std::function<void(const std::vector<int>& ranks, std::string_view bytes, bool ends)>;

  // Created when the ranks are started. `source` is borrowed. If it is nullptr, the ranks' input ends when they start.
  InputFeed(const std::vector<int>& ranks, InputSource* source, Send send);
  ~InputFeed();  // close()
  InputFeed(const InputFeed&) = delete;
  InputFeed& operator=(const InputFeed&) = delete;

  // The source calls the next three functions.
  std::size_t room() const;           // bytes that give() accepts now; 0 if no rank reads
  void give(std::string_view bytes);  // at most room()
  void end();                         // there is no more input

  // The job's runner calls the next functions. They ignore ranks that are not in the feed.
  void started(int rank);
  void taken(int rank, std::size_t bytes, bool closed);
  void rank_over(int rank);  // the rank has ended, or will not start
  void close();              // the job is being stopped

 private:
  struct Reader {
    bool is_started = false;
    std::size_t waiting = 0;  // bytes sent that the rank has not taken yet
  };
  std::vector<int> readers() const;
  void settle(bool had_room);

  std::map<int, Reader> readers_;  // only ranks that still take input
  InputSource* const source_;
  const Send send_;
  bool is_started_ = false;
  bool is_ended_ = false;
  bool is_closed_ = false;
};

}  // namespace muster::launcherd::run
