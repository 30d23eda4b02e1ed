// Tests what the launcher receives, and when, if a line, a rank or the sender ends while another process holds the
// pipes.
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>

#include <gtest/gtest.h>

#include "tests/unit/launcherd/output/output_rig.h"

namespace muster::testing_output::output_end_test {
namespace {

using proto::OutputStream;

TEST(OutputEnd, UnfinishedLineComesAfterAWhile) {
  DigestSink sink;
  Rig rig(&sink);
  agent::OutputSenderConfig config = rig.sender_config(0);
  config.partial_line_after = std::chrono::milliseconds(50);
  OneRank rank(&rig, config);
  rank.say("name: ");
  EXPECT_TRUE(sink.wait_for(0, OutputStream::kStdout, "name: "));
  rank.say("bob\nnext");
  EXPECT_TRUE(sink.wait_for(0, OutputStream::kStdout, "next"));
  rank.close();
  rank.sender.rank_exited(0);
  EXPECT_TRUE(rank.sender.flush_and_close_blocking(in_seconds(20)).ok());
  EXPECT_TRUE(rig.log.wait([&] { return rig.log.ended.count(0) == 1; }));
  EXPECT_EQ(rig.log.ended[0].first, std::string("name: bob\nnext").size());
}

TEST(OutputEnd, ADetachedChildThatHoldsThePipesDoesNotHoldUpTheEnd) {
  DigestSink sink;
  Rig rig(&sink);
  OneRank rank(&rig, rig.sender_config(0));
  rank.say("last words");
  rank.complain("oh no\n");
  rank.sender.rank_exited(0);  // but out.second and err.second stay open
  EXPECT_TRUE(rig.log.wait([&] { return rig.log.ended.count(0) == 1; }, 10));
  EXPECT_EQ(rig.log.ended[0], std::make_pair(std::uint64_t{10}, std::uint64_t{6}));
  EXPECT_EQ(rig.log.tails[0], "oh no\n");
  EXPECT_EQ(rig.log.sent.at(0).stderr_tail, "oh no\n");
  // The stray's next write fails instead of blocking it for ever.
  EXPECT_EQ(write(rank.out.second.get(), "x", 1), -1);
  EXPECT_EQ(errno, EPIPE);
}

TEST(OutputEnd, AChildThatFloodsThePipeForEverDoesNotHoldUpTheEnd) {
  DigestSink sink;
  Rig rig(&sink);
  OneRank rank(&rig, rig.sender_config(0));
  std::thread flood([&] {
    const std::string block(4096, 'z');
    while (write(rank.out.second.get(), block.data(), block.size()) > 0) {
    }
  });
  rank.sender.rank_exited(0);
  EXPECT_TRUE(rig.log.wait([&] { return rig.log.ended.count(0) == 1; }, 30));
  flood.join();  // EPIPE ended it
}

// Keeps what a launcher has received from an agent.
class KeepingSink final : public launcherd::OutputSink {
 public:
  base::Status write(int, OutputStream, std::string_view bytes, std::uint8_t) override {
    text_.append(bytes);
    return base::ok_status();
  }
  base::Status end_rank(int) override { return base::ok_status(); }
  base::Status lost(std::uint64_t bytes, const std::string& host) override {
    text_ += fmt::format("<{} of {}>", bytes, host);
    return base::ok_status();
  }
  base::Status end_agent(int) override {
    text_ += "<finished>";
    return base::ok_status();
  }
  base::Status flush() override {
    const std::lock_guard lock(mutex_);
    flushed_ = text_;
    changed_.notify_all();
    return base::ok_status();
  }
  bool wait_for(std::string_view text) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20), [&] { return flushed_ == text; });
  }

 private:
  std::string text_;  // used by the hub's thread only
  std::mutex mutex_;  // guards the members below
  std::string flushed_;
  std::condition_variable changed_;
};

// The next launcher has less than its predecessor acknowledged.
TEST(OutputEnd, WhatALauncherHasLostIsToldAndTheRestIsSent) {
  KeepingSink sink;
  Rig rig(&sink);
  agent::OutputSenderConfig config = rig.sender_config(0);
  config.outlives_launcher = true;
  OneRank rank(&rig, config);
  rank.say("one\n");
  ASSERT_TRUE(sink.wait_for("one\n"));
  rank.say("two two\n");
  ASSERT_TRUE(sink.wait_for("one\ntwo two\n"));
  const auto expect_again = [&rig](std::uint64_t last_delivered, std::uint64_t delivered_bytes) {
    const auto expected = rig.hub().expect_agent(Rig::kJob, {.agent = 0,
                                                             .secret = Rig::key(0).secret,
                                                             .ranks = {0},
                                                             .host = "n1",
                                                             .last_delivered = last_delivered,
                                                             .delivered_bytes = delivered_bytes});
    EXPECT_TRUE(expected.ok()) << expected;
  };
  expect_again(1, 4);
  ASSERT_TRUE(sink.wait_for("one\ntwo two\n<8 of n1>"));
  rank.say("three\n");
  rank.close();
  rank.sender.rank_exited(0);
  EXPECT_TRUE(rank.sender.flush_and_close_blocking(in_seconds(20)).ok());
  ASSERT_TRUE(sink.wait_for("one\ntwo two\n<8 of n1>three\n<finished>"));
  expect_again(0, 0);  // after the end of all output
  ASSERT_TRUE(sink.wait_for("one\ntwo two\n<8 of n1>three\n<finished><18 of n1><finished>"));
}

// A sink that accepts nothing before the test allows it.
class StuckSink final : public launcherd::OutputSink {
 public:
  base::Status write(int, OutputStream, std::string_view, std::uint8_t) override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_open_; });
    return base::ok_status();
  }
  base::Status end_rank(int) override { return base::ok_status(); }
  base::Status flush() override { return base::ok_status(); }
  void open() {
    const std::lock_guard lock(mutex_);
    is_open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_open_ = false;
};

TEST(OutputEnd, LastWordsAreKnownWhileTheConsoleIsBlocked) {
  StuckSink sink;
  Rig rig(&sink);
  OneRank rank(&rig, rig.sender_config(0));
  ASSERT_TRUE(rig.log.wait([&] { return !rig.log.links.empty(); }));
  // Fill all buffers on the way until the pipe itself is full.
  ASSERT_TRUE(base::set_nonblocking(rank.out.second.get(), true).ok());
  const std::string block(4096, '\n');
  pollfd writable{rank.out.second.get(), POLLOUT, 0};
  std::uint64_t written = 0;
  while (poll(&writable, 1, 500) == 1) {
    const ssize_t put = write(rank.out.second.get(), block.data(), block.size());
    if (put > 0) written += static_cast<std::uint64_t>(put);
  }
  ASSERT_TRUE(base::set_nonblocking(rank.err.second.get(), true).ok());
  std::string complaint;
  while (complaint.size() < 60'000) complaint += "line " + std::to_string(complaint.size()) + "\n";
  complaint += "fatal: it broke\n";
  ASSERT_EQ(write(rank.err.second.get(), complaint.data(), complaint.size()), static_cast<ssize_t>(complaint.size()));
  rank.close();
  rank.sender.rank_exited(0);
  EXPECT_TRUE(rig.log.wait([&] { return rig.log.tails.count(0) == 1; }, 5));
  EXPECT_TRUE(rig.log.tails[0].ends_with("fatal: it broke\n")) << rig.log.tails[0];
  EXPECT_EQ(std::count(rig.log.tails[0].begin(), rig.log.tails[0].end(), '\n'), 20);
  EXPECT_TRUE(rig.log.sent.empty());  // not all its output is framed, because that waits for the console
  sink.open();
  EXPECT_TRUE(rank.sender.flush_and_close_blocking(in_seconds(60)).ok());
  EXPECT_TRUE(rig.log.wait([&] { return rig.log.ended.count(0) == 1; }));
  EXPECT_EQ(rig.log.ended[0], std::make_pair(written, std::uint64_t{complaint.size()}));
}

TEST(OutputEnd, AnAgentThatIsGoneIsCutUnlessItHasSentAll) {
  KeepingSink sink;
  Rig rig(&sink);
  {
    OneRank rank(&rig, rig.sender_config(0));
    rank.say("one\n");
    ASSERT_TRUE(sink.wait_for("one\n"));
    EXPECT_TRUE(rig.log.cut.empty());
  }  // the rank had not ended
  rig.hub().agent_ended(Rig::kJob, 0);
  EXPECT_TRUE(rig.log.wait([&] { return rig.log.cut == std::set<int>{0}; }));
  EXPECT_TRUE(rig.log.complete.empty());

  OneRank rank(&rig, rig.sender_config(0));
  rank.say("two\n");
  rank.close();
  rank.sender.rank_exited(0);
  ASSERT_TRUE(rank.sender.flush_and_close_blocking(in_seconds(20)).ok());
  rig.hub().agent_ended(Rig::kJob, 0);
  rig.expect(1, {1});
  rig.hub().agent_ended(Rig::kJob, 1);  // it never connected; its report follows that of the other agent
  EXPECT_TRUE(rig.log.wait([&] { return rig.log.cut.contains(1); }));
  EXPECT_EQ(rig.log.cut, (std::set<int>{0, 1}));
  EXPECT_EQ(rig.log.complete, std::set<int>{0});
}

// On any network some peer connects and sends nothing.
TEST(OutputEnd, WhoComesLaterIsNotTakenForAnAgentThatIsGone) {
  KeepingSink sink;
  Rig rig(&sink);
  base::UniqueFd earlier = connect_to(rig.port());
  rig.expect(1, {1});
  rig.hub().agent_ended(Rig::kJob, 1);
  // The hub answers after all earlier commands. The second answer comes in a later turn, which first reports all ends.
  for (int turn = 0; turn < 2; ++turn) {
    rig.hub().add_job("ijklmnop", &sink, {});
    rig.hub().remove_job("ijklmnop");
  }
  const base::UniqueFd later = connect_to(rig.port());
  ASSERT_TRUE(earlier.valid() && later.valid());
  EXPECT_TRUE(rig.log.wait([&] { return rig.log.cut.empty(); }, 0)) << "the earlier one may be the agent's";
  earlier.reset();
  EXPECT_TRUE(rig.log.wait([&] { return rig.log.cut == std::set<int>{1}; }, 5));
}

TEST(OutputEnd, StopTellsWhoeverWaits) {
  DigestSink sink;
  Rig rig(&sink);
  agent::OutputSender sender(rig.sender_config(0), {});  // not expected, so no connection succeeds
  base::Status status;
  std::thread waiter([&] { status = sender.flush_and_close_blocking(in_seconds(3600)); });
  sender.stop();
  waiter.join();
  EXPECT_EQ(status.code(), base::Code::kCancelled);
  EXPECT_EQ(sender.flush_and_close_blocking(in_seconds(3600)).code(), base::Code::kCancelled);
}

}  // namespace
}  // namespace muster::testing_output::output_end_test
