// TopState is what `muster top` shows and where the user is in it, without a terminal: it takes keys and answers, and
// says what to ask next.
//
//   keys   main screen: both tables. Enter opens a job or a host, Escape goes back, ? shows the help over any screen,
//          / types a filter. The rest is in top_help.h.
// Thread: one thread; pure except for the time that the caller sets.
//
// Example:
//   TopState state("unix:/run/x.sock");
//   state.resize(24, 80);
//   state.take(answer_to(state.query()));
//   if (!state.apply(press)) return;  // the user has ended it
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "cli/top/host_order.h"
#include "cli/top/list_cursor.h"
#include "cli/top/top_areas.h"
#include "cli/top/top_keys.h"
#include "cli/top/top_query.h"

namespace muster::cli::inline top {

enum class TopScreen { kMain, kJob, kHost };

class TopState {
 public:
  static constexpr std::size_t kLongestFilter = 200;  // bytes
  static constexpr std::int64_t kMargin = 50;         // rows that are asked for above and below the screen

  // `launcher` is launcherd's address; empty if there is none.
  explicit TopState(std::string launcher) : launcher_(std::move(launcher)) {}

  void resize(int lines, int columns);
  void set_time(base::WallTime now);
  void take(TopAnswer answer);
  // Returns false if the user ends the program.
  bool apply(const KeyPress& press);
  TopQuery query() const;

  int lines() const { return lines_; }
  int columns() const { return columns_; }
  base::WallTime now() const { return now_; }
  const std::string& launcher() const { return launcher_; }
  TopScreen screen() const { return screens_.back(); }
  bool has_help() const { return has_help_; }
  int help_top() const { return help_top_; }
  bool has_answer() const { return has_answer_; }
  // Says that launcherd does not answer; empty if it does.
  std::string problem() const;

  std::int64_t running() const { return running_; }
  std::int64_t waiting() const { return waiting_; }
  TopPane pane() const { return pane_; }
  bool is_typing() const { return typed_.has_value(); }
  const std::string& typed() const { return *typed_; }  // only while is_typing()
  const JobList& list() const { return list_; }
  const std::string& host_filter() const { return host_filter_; }
  HostOrder host_order() const { return host_order_; }
  bool are_hosts_reversed() const { return are_hosts_reversed_; }

  // Rows of jobs: foreground jobs first, then launcherd's.
  std::int64_t job_count() const;
  std::int64_t foreground_count() const { return static_cast<std::int64_t>(foreground_.size()); }
  const v1::Job* job_at(std::int64_t row) const;  // nullptr if the row has not arrived yet
  const ListCursor& job_cursor() const { return jobs_; }
  const std::vector<v1::LauncherHost>& hosts() const { return hosts_; }
  const std::vector<std::size_t>& host_rows() const { return host_rows_; }  // indices into hosts()
  const ListCursor& host_cursor() const { return host_cursor_; }
  MainAreas areas() const;

  // The job of the screen kJob. nullptr before its answer; then job_problem() may say why.
  const v1::Job* job() const { return job_ ? &*job_ : nullptr; }
  const std::string& job_name() const { return job_name_; }
  const std::string& job_problem() const { return job_problem_; }
  std::int64_t rank_count() const;
  const v1::RankStatus* rank_at(std::int64_t row) const;  // nullptr if the row has not arrived yet
  const ListCursor& rank_cursor() const { return ranks_; }

  // The host of the screen kHost. nullptr if launcherd no longer has it.
  const v1::LauncherHost* host() const;
  const std::string& host_name() const { return host_name_; }
  const std::vector<v1::Job>& host_jobs() const { return host_jobs_; }
  const ListCursor& host_job_cursor() const { return host_job_cursor_; }

  // The lines of the screens kJob and kHost.
  DetailAreas detail() const;
  int lines_above() const { return problem().empty() ? 1 : 2; }

 private:
  // A list that keys move in.
  struct MovedList {
    ListCursor* cursor;
    std::int64_t size;
    std::int64_t shown;

    void move_by(std::int64_t rows) { cursor->move_to(cursor->at + rows, size, shown); }
    void move_to(std::int64_t row) { cursor->move_to(row, size, shown); }
  };

  MovedList moved_list(TopPane pane);
  MovedList moved_list() { return moved_list(pane_); }
  void settle();
  void take_jobs(TopAnswer& answer);
  void take_hosts(std::vector<v1::LauncherHost> hosts);
  void order_hosts();
  bool apply_text(const std::string& text);
  void apply_move(TopKey key);
  void apply_in_filter(const KeyPress& press);
  void apply_in_help(TopKey key);
  void apply_mouse(const KeyPress& press);
  void select_line(int line);
  void open();
  void open_job(const std::string& id);
  void go_back();
  void next_order();
  void reverse_order();
  void start_filter();
  void set_filter(const std::string& filter);

  std::string launcher_;
  int lines_ = 24;
  int columns_ = 80;
  base::WallTime now_{};

  std::vector<TopScreen> screens_{TopScreen::kMain};
  TopPane pane_ = TopPane::kJobs;
  bool has_help_ = false;
  int help_top_ = 0;
  std::optional<std::string> typed_;  // the filter while it is typed

  bool has_answer_ = false;
  base::WallTime answered_at_{};
  std::string problem_;
  std::int64_t running_ = 0;
  std::int64_t waiting_ = 0;

  JobList list_;
  JobRows rows_;
  std::vector<v1::Job> foreground_;  // those that the filter keeps
  ListCursor jobs_;

  std::vector<v1::LauncherHost> hosts_;
  std::vector<std::size_t> host_rows_;
  std::string host_filter_;
  HostOrder host_order_ = HostOrder::kList;
  bool are_hosts_reversed_ = false;
  ListCursor host_cursor_;

  std::string job_name_;
  std::optional<v1::Job> job_;
  std::int64_t first_rank_ = 0;  // row of the first of job_'s ranks
  std::string job_problem_;
  ListCursor ranks_;

  std::string host_name_;
  std::vector<v1::Job> host_jobs_;
  ListCursor host_job_cursor_;
};

// Returns the name of a job order for people: "state", "newest first".
std::string_view name_of(v1::JobOrder order);

}  // namespace muster::cli::top
