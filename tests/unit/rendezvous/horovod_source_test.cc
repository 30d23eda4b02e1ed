#include "rendezvous/horovod_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "rendezvous/horovod_cache.h"

namespace muster::rendezvous::horovod_source_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// One line for each change.
HorovodSource::Watch note(std::vector<std::string>& lines) {
  return [&lines](const HorovodChange& change) {
    switch (change.kind) {
      case HorovodChange::Kind::kBegin:
        return lines.emplace_back("begin"), void();
      case HorovodChange::Kind::kSet:
        return lines.push_back("set " + std::string(change.key) + "=" + *change.value);
      case HorovodChange::Kind::kErased:
        return lines.push_back("erased " + std::string(change.key));
      case HorovodChange::Kind::kCleared:
        return lines.emplace_back("cleared"), void();
      case HorovodChange::Kind::kSynced:
        return lines.emplace_back("synced"), void();
    }
  };
}

HorovodSource::Done ignore() {
  return [](const base::Status&) {};
}

TEST(HorovodStoreSource, ReportsACopyAndThenChangesExceptOwnPuts) {
  HorovodStore store({});
  HorovodStoreSource source(store);
  ASSERT_TRUE(store.put("s", "0", make_horovod_value("a")).ok());
  std::vector<std::string> one;
  std::vector<std::string> two;
  const auto first = source.watch("s", note(one));
  source.watch("s", note(two));
  source.put_from(first, "s", "1", make_horovod_value("b"), ignore());
  source.put_from(0, "s", "2", make_horovod_value("c"), ignore());
  source.finish("s", "0", ignore());
  EXPECT_THAT(one, ElementsAre("begin", "set 0=a", "synced", "set 2=c", "erased 0"));
  EXPECT_THAT(two, ElementsAre("begin", "set 0=a", "synced", "set 1=b", "set 2=c", "erased 0"));
  source.unwatch("s", first);
  source.put_from(0, "s", "3", make_horovod_value("d"), ignore());
  EXPECT_EQ(one.size(), 5U);
}

// A cache whose store the test plays.
class PlayedUpstream final : public HorovodUpstream {
 public:
  void set_listener(Listener* to) override { listener = to; }
  void put(std::string_view, std::string_view, HorovodValue, Done done) override { dones.push_back(std::move(done)); }
  void finish(std::string_view, std::string_view, Done done) override { dones.push_back(std::move(done)); }
  void follow(std::string_view scope) override { followed.emplace_back(scope); }
  bool is_connected() const override { return true; }

  Listener* listener = nullptr;
  std::vector<Done> dones;
  std::vector<std::string> followed;
};

TEST(HorovodCacheAsSource, AChildGetsACopyOnceTheScopeIsSyncedAndThenChanges) {
  PlayedUpstream upstream;
  HorovodCache cache(upstream);
  std::vector<std::string> one;
  std::vector<std::string> two;
  const auto first = cache.watch("s", note(one));
  EXPECT_THAT(upstream.followed, ElementsAre("s"));
  upstream.listener->on_begin("s");
  upstream.listener->on_set("s", "0", make_horovod_value("a"));
  EXPECT_THAT(one, IsEmpty()) << "the copy is not complete";
  upstream.listener->on_synced("s");
  cache.watch("s", note(two));
  EXPECT_EQ(upstream.followed.size(), 1U) << "for both";
  // The answer of a put stands for the change, in the store's order.
  cache.put_from(first, "s", "1", make_horovod_value("b"), ignore());
  EXPECT_EQ(two.size(), 3U) << "the store has not taken it";
  upstream.dones[0](base::ok_status());
  upstream.listener->on_set("s", "2", make_horovod_value("c"));
  upstream.listener->on_erased("s", "0");
  upstream.listener->on_cleared("s");
  EXPECT_THAT(one, ElementsAre("begin", "set 0=a", "synced", "set 2=c", "erased 0", "cleared"));
  EXPECT_THAT(two, ElementsAre("begin", "set 0=a", "synced", "set 1=b", "set 2=c", "erased 0", "cleared"));
}

TEST(HorovodCacheAsSource, AfterALostLinkAllChildrenGetANewCopy) {
  PlayedUpstream upstream;
  HorovodCache cache(upstream);
  std::vector<std::string> lines;
  const auto id = cache.watch("s", note(lines));
  upstream.listener->on_begin("s");
  upstream.listener->on_synced("s");
  upstream.listener->on_lost();
  upstream.listener->on_begin("s");
  upstream.listener->on_set("s", "0", make_horovod_value("a"));
  upstream.listener->on_erased("s", "0");
  upstream.listener->on_set("s", "1", make_horovod_value("b"));
  upstream.listener->on_synced("s");
  EXPECT_THAT(lines, ElementsAre("begin", "synced", "begin", "set 1=b", "synced"));
  cache.unwatch("s", id);
  upstream.listener->on_set("s", "2", make_horovod_value("c"));
  EXPECT_EQ(lines.size(), 5U);
}

}  // namespace
}  // namespace muster::rendezvous::horovod_source_test
