// The link between a cache's host and the store's: both ends, over real sockets.
#include "rendezvous/horovod_origin.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <vector>

#include "rendezvous/horovod_tcp_upstream.h"
#include "tests/unit/rendezvous/loop_peer.h"

namespace muster::rendezvous::horovod_origin_test {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;

void allow(const ConnectionEnds&, const std::function<void(bool)>& done) {
  done(true);
}
void refuse(const ConnectionEnds&, const std::function<void(bool)>& done) {
  done(false);
}

HorovodValue value(std::string_view text) {
  return make_horovod_value(std::string(text));
}

// One line for each call.
class NotingListener final : public HorovodUpstream::Listener {
 public:
  void on_begin(std::string_view scope) override { note("begin", scope); }
  void on_synced(std::string_view scope) override { note("synced", scope); }
  void on_set(std::string_view scope, std::string_view key, HorovodValue bytes) override {
    note("set", std::string(scope) + "/" + std::string(key) + "=" + *bytes);
  }
  void on_erased(std::string_view scope, std::string_view key) override {
    note("erased", std::string(scope) + "/" + std::string(key));
  }
  void on_cleared(std::string_view scope) override { note("cleared", scope); }
  void on_lost() override { note("lost", ""); }
  void note(std::string_view what, std::string_view about) {
    lines.push_back(std::string(what) + " " + std::string(about));
  }
  std::function<void(base::Status)> done(std::string_view what) {
    return [this, text = std::string(what)](const base::Status& status) {
      note("done", text + " " + std::string(base::code_name(status.code())));
    };
  }

  std::vector<std::string> lines;
};

class HorovodOriginTest : public ::testing::Test {
 protected:
  HorovodOriginTest() : listening_(base::listen_any(0, 8).value()), port_(*base::local_port(listening_.get())) {}

  // May be called again: the listening socket stays open, as if the agent had only dropped its links.
  void serve(OwnerCheck check = allow, HorovodOriginLimits limits = {}) {
    origin_.reset();
    base::UniqueFd copy(::fcntl(listening_.get(), F_DUPFD_CLOEXEC, 0));
    origin_ = std::make_unique<HorovodOrigin>(loop_, std::move(copy), source_, std::move(check), limits);
  }

  std::unique_ptr<HorovodTcpUpstream> connect(NotingListener& listener, OwnerCheck check = allow) {
    auto upstream = std::make_unique<HorovodTcpUpstream>(loop_, loopback(), port_, std::move(check));
    upstream->set_listener(&listener);
    return upstream;
  }

  bool until_lines(const NotingListener& listener, std::size_t count) {
    return run_until(loop_, [&] { return listener.lines.size() >= count; });
  }

  base::Loop loop_;
  HorovodStore store_{{{{"global", 2}}}, {.max_keys = 64, .max_total_bytes = 4 << 20}};
  HorovodStoreSource source_{store_};
  base::UniqueFd listening_;
  std::uint16_t port_;
  std::unique_ptr<HorovodOrigin> origin_;
};

TEST_F(HorovodOriginTest, TellsWhatIsThereThenEachChangeInOrderWithTheAnswers) {
  serve();
  ASSERT_TRUE(store_.put("global", "1", value("b")).ok());
  ASSERT_TRUE(store_.put("other", "0", value("never told")).ok());
  NotingListener listener;
  const auto upstream = connect(listener);
  upstream->follow("global");
  upstream->follow("global");
  upstream->put("global", "0", value("a"), listener.done("put"));
  ASSERT_TRUE(until_lines(listener, 4));
  EXPECT_THAT(listener.lines, ElementsAre("begin global", "set global/1=b", "synced global", "done put OK"));
  listener.lines.clear();
  ASSERT_TRUE(store_.put("global", "rank_1", value("n2")).ok());
  store_.finish("global", "1");
  upstream->finish("global", "0", listener.done("finish"));
  ASSERT_TRUE(until_lines(listener, 3));
  EXPECT_THAT(listener.lines, ElementsAre("set global/rank_1=n2", "cleared global", "done finish OK"));
  EXPECT_EQ(origin_->counts().requests, 3u);
  EXPECT_EQ(origin_->counts().links, 1u);
}

// A worker of another host asks for keys only after the answer to its first put. So it never sees those of the old
// world.
TEST_F(HorovodOriginTest, RenewalReachesOtherHostsBeforeTheAnswerToTheirNextPut) {
  serve();
  ASSERT_TRUE(store_.put("global", "1", value("old")).ok());
  NotingListener listener;
  const auto upstream = connect(listener);
  upstream->follow("global");
  ASSERT_TRUE(until_lines(listener, 3));
  listener.lines.clear();
  store_.renew({{{"global", 3}}});
  upstream->put("global", "rank_0", value("new"), listener.done("put"));
  ASSERT_TRUE(until_lines(listener, 2));
  EXPECT_THAT(listener.lines, ElementsAre("cleared global", "done put OK"));
}

TEST_F(HorovodOriginTest, EachHostSeesTheOthersPutsNotItsOwn) {
  serve();
  NotingListener a_listener;
  NotingListener b_listener;
  const auto a = connect(a_listener);
  const auto b = connect(b_listener);
  a->follow("set_1");
  b->follow("set_1");
  ASSERT_TRUE(until_lines(a_listener, 2) && until_lines(b_listener, 2));
  a->put("set_1", "0", value("from a"), a_listener.done("put"));
  ASSERT_TRUE(until_lines(b_listener, 3));
  b->finish("set_1", "0", b_listener.done("finish"));
  ASSERT_TRUE(until_lines(b_listener, 5) && until_lines(a_listener, 4));
  EXPECT_THAT(a_listener.lines, ElementsAre("begin set_1", "synced set_1", "done put OK", "erased set_1/0"));
  EXPECT_THAT(b_listener.lines,
              ElementsAre("begin set_1", "synced set_1", "set set_1/0=from a", "erased set_1/0", "done finish OK"));
}

TEST_F(HorovodOriginTest, LongValuesTravelPackedAndArriveWhole) {
  serve();
  std::string bytes;
  for (int i = 0; i < 63; ++i) bytes += std::string(135, '\x01') + static_cast<char>(i);
  ASSERT_TRUE(store_.put("global", "0", value(bytes)).ok());
  NotingListener listener;
  const auto upstream = connect(listener);
  upstream->follow("global");
  ASSERT_TRUE(until_lines(listener, 3));
  EXPECT_EQ(listener.lines[1], "set global/0=" + bytes);
  EXPECT_LT(origin_->counts().sent_bytes, bytes.size() / 10);
}

TEST_F(HorovodOriginTest, RefusalOfTheStoreArrives) {
  serve();
  NotingListener listener;
  const auto upstream = connect(listener);
  upstream->put("s", "k", value(std::string(5 << 20, 'x')), listener.done("put"));
  ASSERT_TRUE(until_lines(listener, 1));
  EXPECT_THAT(listener.lines, ElementsAre("done put RESOURCE_EXHAUSTED"));
}

TEST_F(HorovodOriginTest, AfterALossEverythingUnansweredIsAskedAgain) {
  std::vector<std::function<void(bool)>> unchecked;
  serve([&](const ConnectionEnds&, std::function<void(bool)> done) { unchecked.push_back(std::move(done)); });
  NotingListener listener;
  const auto upstream = connect(listener);
  upstream->follow("global");
  upstream->put("global", "0", value("a"), listener.done("put"));
  ASSERT_TRUE(run_until(loop_, [&] { return unchecked.size() == 1 && upstream->is_connected(); }));
  serve();  // the first origin goes, with a link that it never read
  ASSERT_TRUE(until_lines(listener, 4));
  EXPECT_THAT(listener.lines, ElementsAre("lost ", "begin global", "synced global", "done put OK"));
  EXPECT_EQ(*store_.get("global", "0"), "a");
  listener.lines.clear();
  serve();
  ASSERT_TRUE(until_lines(listener, 4));
  EXPECT_THAT(listener.lines, ElementsAre("lost ", "begin global", "set global/0=a", "synced global"));
  EXPECT_TRUE(upstream->last_failure().ok());
}

TEST_F(HorovodOriginTest, StoreThatCannotBeReachedIsTriedAgain) {
  listening_.reset();
  NotingListener listener;
  const auto upstream = connect(listener);
  upstream->put("s", "k", value("v"), listener.done("put"));
  ASSERT_TRUE(until_lines(listener, 3));
  EXPECT_THAT(listener.lines, ElementsAre("lost ", "lost ", "lost "));
  EXPECT_EQ(upstream->last_failure().code(), base::Code::kUnavailable);
  EXPECT_THAT(upstream->last_failure().message(), ::testing::HasSubstr("127.0.0.1:" + std::to_string(port_)));
}

TEST_F(HorovodOriginTest, AnotherOwnerGetsNothing) {
  serve(refuse);
  ASSERT_TRUE(store_.put("global", "0", value("secret")).ok());
  NotingListener listener;
  const auto upstream = connect(listener);
  upstream->follow("global");
  upstream->put("global", "0", value("planted"), listener.done("put"));
  ASSERT_TRUE(until_lines(listener, 2));
  EXPECT_THAT(listener.lines, ElementsAre("lost ", "lost "));
  EXPECT_EQ(*store_.get("global", "0"), "secret");
}

TEST_F(HorovodOriginTest, NothingIsSentToAnotherOwner) {
  serve();
  NotingListener listener;
  const auto upstream = connect(listener, refuse);
  upstream->put("global", "0", value("for our store only"), listener.done("put"));
  ASSERT_TRUE(until_lines(listener, 2));
  EXPECT_EQ(upstream->last_failure().code(), base::Code::kPermissionDenied);
  EXPECT_EQ(store_.size(), 0u);
  EXPECT_EQ(origin_->counts().requests, 0u);
}

TEST_F(HorovodOriginTest, JunkAndWhatNoCacheSendsCloseTheirLinkOnly) {
  serve();
  NotingListener listener;
  const auto upstream = connect(listener);
  upstream->follow("global");
  ASSERT_TRUE(until_lines(listener, 2));
  const std::string follow = horovod_frame_head({.kind = HorovodFrameKind::kFollow, .scope = "s"});
  for (const std::string& bytes :
       {std::string("GET /global/0 HTTP/1.1\r\n\r\n"), std::string(64, '\xff'),
        horovod_frame_head({.kind = HorovodFrameKind::kSet, .scope = "global", .key = "0"}), follow + follow}) {
    LoopPeer peer(loop_, port_);
    ASSERT_TRUE(peer.send(bytes));
    EXPECT_TRUE(run_until(loop_, [&] { return peer.is_closed(); })) << bytes;
  }
  LoopPeer half(loop_, port_);
  ASSERT_TRUE(half.send(follow.substr(0, 7)));
  upstream->put("global", "0", value("a"), listener.done("put"));
  ASSERT_TRUE(until_lines(listener, 3));
  EXPECT_EQ(listener.lines.back(), "done put OK");
  EXPECT_EQ(origin_->counts().lost_links, 4u);
}

TEST_F(HorovodOriginTest, CacheThatDoesNotReadIsCutOff) {
  HorovodOriginLimits limits;
  limits.max_queued_bytes = 1 << 20;
  serve(allow, limits);
  LoopPeer stuck(loop_, port_);
  stuck.stop_reading();
  ASSERT_TRUE(stuck.send(horovod_frame_head({.kind = HorovodFrameKind::kFollow, .scope = "s"})));
  ASSERT_TRUE(run_until(loop_, [&] { return origin_->counts().requests == 1; }));
  std::mt19937 random(1);
  std::string noise(1 << 20, '\0');  // nothing to pack
  for (char& byte : noise) byte = static_cast<char>(random());
  const HorovodValue big = value(noise);
  // More than the kernel's buffers take.
  for (int i = 0; i < 64 && origin_->counts().links > 0; ++i) {
    ASSERT_TRUE(store_.put("s", "k", big).ok());
    run_for(loop_, 1ms);
  }
  EXPECT_TRUE(run_until(loop_, [&] { return origin_->counts().links == 0; }));
  EXPECT_EQ(origin_->counts().lost_links, 1u);
}

TEST_F(HorovodOriginTest, LinksAreBounded) {
  HorovodOriginLimits limits;
  limits.max_links = 1;
  serve(allow, limits);
  NotingListener listener;
  const auto first = connect(listener);
  first->follow("global");
  ASSERT_TRUE(until_lines(listener, 2));
  LoopPeer second(loop_, port_);
  EXPECT_TRUE(run_until(loop_, [&] { return second.is_closed(); }));
  EXPECT_EQ(origin_->counts().links, 1u);
}

TEST_F(HorovodOriginTest, UpstreamWithoutItsListenerAnswersNobody) {
  serve();
  NotingListener listener;
  const auto upstream = connect(listener);
  upstream->follow("global");
  upstream->put("global", "0", value("a"), listener.done("put"));
  upstream->set_listener(nullptr);
  ASSERT_TRUE(run_until(loop_, [&] { return store_.size() == 1; }));
  run_for(loop_, 5ms);
  EXPECT_TRUE(listener.lines.empty());
}

}  // namespace
}  // namespace muster::rendezvous::horovod_origin_test
