#include "agent/pmix/messages.h"

#include <gtest/gtest.h>

namespace muster::agent::pmix::messages_test {
namespace {

using namespace std::string_literals;

template <typename T>
T command_again(const Command& command) {
  const auto decoded = decode_command(encode(command));
  EXPECT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_TRUE(std::holds_alternative<T>(*decoded));
  return std::get<T>(*decoded);
}

template <typename T>
T event_again(const Event& event) {
  const auto decoded = decode_event(encode(event));
  EXPECT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_TRUE(std::holds_alternative<T>(*decoded));
  return std::get<T>(*decoded);
}

TEST(PmixMessages, CommandsArriveAsTheyWere) {
  const auto begin = command_again<BeginServer>(BeginServer{"job-0", "/tmp/x", "n2", 1});
  EXPECT_EQ(begin.nspace, "job-0");
  EXPECT_EQ(begin.directory, "/tmp/x");
  EXPECT_EQ(begin.host_name, "n2");
  EXPECT_EQ(begin.host, 1);
  const auto placement = command_again<Placement>(Placement{{{"n1", {0, 2}}, {"n2", {1}}, {"n3", {}}}, {1, 2}});
  ASSERT_EQ(placement.hosts.size(), 3u);
  EXPECT_EQ(placement.programs, (std::vector<int>{1, 2}));
  EXPECT_EQ(placement.hosts[0].ranks, (std::vector<int>{0, 2}));
  EXPECT_EQ(placement.hosts[1].name, "n2");
  EXPECT_TRUE(placement.hosts[2].ranks.empty());
  command_again<Connection>(Connection{});
  const auto done = command_again<FenceDone>(FenceDone{~0ull, true, "\0\xff"s});
  EXPECT_EQ(done.id, ~0ull);
  EXPECT_TRUE(done.is_ok);
  EXPECT_EQ(done.blob, "\0\xff"s);
  EXPECT_EQ(command_again<WantRankData>(WantRankData{7}).rank, 7);
  EXPECT_FALSE(command_again<RankDataFound>(RankDataFound{3, false, ""}).is_ok);
  const auto world = command_again<AddWorld>(AddWorld{"muster-a-0-2", 2, 1, {{{"n1", {}}, {"n2", {0, 1}}}, {2}, 8}});
  EXPECT_EQ(world.nspace, "muster-a-0-2");
  EXPECT_EQ(world.first, 2);
  EXPECT_EQ(world.spawner, 1);
  ASSERT_EQ(world.placement.hosts.size(), 2u);
  EXPECT_EQ(world.placement.hosts[1].ranks, (std::vector<int>{0, 1}));
  EXPECT_EQ(world.placement.universe, 8);
  const auto spawned = command_again<SpawnDone>(SpawnDone{6, "muster-a-0-2"});
  EXPECT_EQ(spawned.id, 6u);
  EXPECT_EQ(spawned.nspace, "muster-a-0-2");
  const auto answer = command_again<NameAnswer>(NameAnswer{4, 2, {"a", "b"}, {"1", "\0"s}});
  EXPECT_EQ(answer.id, 4u);
  EXPECT_EQ(answer.status, 2);
  EXPECT_EQ(answer.names, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(answer.values, (std::vector<std::string>{"1", "\0"s}));
}

TEST(PmixMessages, EventsArriveAsTheyWere) {
  EXPECT_EQ(event_again<Ready>(Ready{"", "OpenPMIx 4.2.2"}).version, "OpenPMIx 4.2.2");
  EXPECT_EQ(event_again<RankConnected>(RankConnected{1}).rank, 1);
  EXPECT_EQ(event_again<RankFinalized>(RankFinalized{2}).rank, 2);
  const auto aborted = event_again<RankAborted>(RankAborted{3, -1});
  EXPECT_EQ(aborted.rank, 3);
  EXPECT_EQ(aborted.code, -1);
  const auto entered = event_again<FenceEntered>(FenceEntered{9, "all", {0, 1, 3}, "blob", {4, 5}});
  EXPECT_EQ(entered.id, 9u);
  EXPECT_EQ(entered.name, "all");
  EXPECT_EQ(entered.hosts, (std::vector<int>{0, 1, 3}));
  EXPECT_EQ(entered.blob, "blob");
  EXPECT_EQ(entered.ranks, (std::vector<int>{4, 5}));
  EXPECT_EQ(event_again<RankDataWanted>(RankDataWanted{4, 5}).rank, 5);
  EXPECT_EQ(event_again<RankData>(RankData{6, true, "data"}).blob, "data");
  EXPECT_EQ(event_again<RankText>(RankText{1, "text\n"}).text, "text\n");
  const auto wanted = event_again<SpawnWanted>(
      SpawnWanted{3, 8, {{{"./a", "x y"}, 2, {"A=1"}, "/tmp", {"n1", "n2"}}, {{"./b"}, 1, {}, "", {}}}});
  EXPECT_EQ(wanted.id, 3u);
  EXPECT_EQ(wanted.rank, 8);
  ASSERT_EQ(wanted.programs.size(), 2u);
  EXPECT_EQ(wanted.programs[0].command, (std::vector<std::string>{"./a", "x y"}));
  EXPECT_EQ(wanted.programs[0].ranks, 2);
  EXPECT_EQ(wanted.programs[0].environment, std::vector<std::string>{"A=1"});
  EXPECT_EQ(wanted.programs[0].workdir, "/tmp");
  EXPECT_EQ(wanted.programs[0].hosts, (std::vector<std::string>{"n1", "n2"}));
  EXPECT_EQ(wanted.programs[1].command, std::vector<std::string>{"./b"});
  const auto added = event_again<WorldAdded>(WorldAdded{4, "no room"});
  EXPECT_EQ(added.first, 4);
  EXPECT_EQ(added.error, "no room");
  const auto published = event_again<NamePublish>(NamePublish{5, 1, {"a"}, {"1"}, true});
  EXPECT_EQ(published.id, 5u);
  EXPECT_EQ(published.rank, 1);
  EXPECT_EQ(published.names, std::vector<std::string>{"a"});
  EXPECT_EQ(published.values, std::vector<std::string>{"1"});
  EXPECT_TRUE(published.is_read_once);
  const auto looked_up = event_again<NameLookUp>(NameLookUp{6, {"a", ""}, true, 7});
  EXPECT_EQ(looked_up.id, 6u);
  EXPECT_EQ(looked_up.names, (std::vector<std::string>{"a", ""}));
  EXPECT_TRUE(looked_up.waits);
  EXPECT_EQ(looked_up.seconds, 7);
  const auto taken = event_again<NameUnpublish>(NameUnpublish{8, 2, {}});
  EXPECT_EQ(taken.id, 8u);
  EXPECT_EQ(taken.rank, 2);
  EXPECT_TRUE(taken.names.empty());
}

TEST(PmixMessages, WhatIsNotWholeIsRefused) {
  const std::string whole = encode(Event(FenceEntered{9, "all", {0, 1}, "blob"}));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(decode_event(whole.substr(0, size)).ok()) << size;
  }
  EXPECT_EQ(decode_event(whole + "x").status().code(), base::Code::kInvalidArgument);
  EXPECT_FALSE(decode_event("\xff").ok());
  EXPECT_FALSE(decode_command("").ok());
}

TEST(PmixMessages, ACountOfMoreThanThereIsMakesNoRoom) {
  // Placement (index 1) of 2^32-1 hosts, and a fence of 2^32-1 hosts.
  EXPECT_FALSE(decode_command("\1\xff\xff\xff\xff"s).ok());
  EXPECT_FALSE(decode_event("\4\0\0\0\0\0\0\0\0\0\0\0\0\xff\xff\xff\xff"s).ok());
}

}  // namespace
}  // namespace muster::agent::pmix::messages_test
