// The launcher's stdin on its way to the ranks that read it: who may be sent how much, and when nobody reads any more.
//
// A slow rank holds the others: each byte goes to all of them at once, and at most proto::kInputWindow bytes wait for
// the slowest. Nothing is read before every one of these ranks runs. Loop thread only; owned by the job, which tells it
// what became of the ranks.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string_view>
#include <vector>

namespace muster::launcherd::inline run {

class InputFeed;

// Who reads the launcher's stdin. Outlives the feeds that it serves, one after the other.
class InputSource {
 public:
  virtual ~InputSource() = default;
  virtual void prepare() = 0;               // the ranks are being started: they may show something before start()
  virtual void start(InputFeed& feed) = 0;  // the ranks run and read; `feed` is there until stop()
  virtual void has_room() = 0;              // feed.room() was 0 and is not any more
  virtual void stop() = 0;                  // nobody reads any more, or ever has
};

class InputFeed {
 public:
  // To these ranks; `ends`: nothing comes after `bytes`.
  using Send = std::function<void(const std::vector<int>& ranks, std::string_view bytes, bool ends)>;

  // Made when the ranks are started. `source` is borrowed; null: the ranks' input ends as they start.
  InputFeed(const std::vector<int>& ranks, InputSource* source, Send send);
  ~InputFeed();  // close()
  InputFeed(const InputFeed&) = delete;
  InputFeed& operator=(const InputFeed&) = delete;

  // For the source.
  std::size_t room() const;           // bytes that give() takes now; 0 when nobody reads
  void give(std::string_view bytes);  // at most room()
  void end();                         // there is no more input

  // For the job; other ranks than those of the feed are ignored.
  void started(int rank);
  void taken(int rank, std::size_t bytes, bool closed);
  void rank_over(int rank);  // it has ended, or will not start
  void close();              // the job is being stopped

 private:
  struct Reader {
    bool is_started = false;
    std::size_t waiting = 0;  // sent, not taken
  };
  std::vector<int> readers() const;
  void settle(bool had_room);

  std::map<int, Reader> readers_;  // that still take input
  InputSource* const source_;
  const Send send_;
  bool is_started_ = false;
  bool is_ended_ = false;
  bool is_closed_ = false;
};

}  // namespace muster::launcherd::run
