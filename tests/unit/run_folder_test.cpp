// The folder of a run: the owner of its link, and files that others have put there.
#include "bench/app/run/run_folder.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <vector>

#include "tests/unit/in_folder.hpp"

namespace p5 {
namespace {

namespace fs = std::filesystem;

class RunFolders : public InFolder {};

TEST_F(RunFolders, latest_is_the_last_of_its_second_and_any_run_of_another) {
  RunFolder first(folder, "c");
  first.become_latest();
  const fs::path run = fs::read_symlink(folder / "c" / "latest");
  const auto points_to = [&](const fs::path& target) {
    fs::remove(folder / "c" / "latest");
    fs::create_symlink(target, folder / "c" / "latest");
  };
  // A run of the same second that began after all others; one whose name is in the future.
  for (const std::string& stamp : {std::string("20000101T000000Z"), std::string("29990101T000000Z-7")}) {
    points_to(stamp);
    RunFolder later(folder, "c");
    later.become_latest();
    EXPECT_EQ(fs::read_symlink(folder / "c" / "latest"), later.path().filename()) << stamp;
    points_to(later.path().filename().string().substr(0, 16) + "-1000");
    RunFolder another(folder, "c");
    another.become_latest();
    const bool same_second =
        another.path().filename().string().starts_with(later.path().filename().string().substr(0, 16));
    EXPECT_EQ(fs::read_symlink(folder / "c" / "latest") == another.path().filename(), !same_second);
  }
}

TEST_F(RunFolders, latest_of_all_clusters_is_the_one_that_began_last) {
  for (int attempt = 0; attempt < 3; ++attempt) {
    RunFolder first(folder, "c"), second(folder, "c"), third(folder, "c"), other(folder, "d");
    for (RunFolder* each : {&first, &second, &third, &other}) each->become_latest();
    EXPECT_EQ(fs::read_symlink(folder / "latest"), fs::path("d") / other.path().filename());
    EXPECT_EQ(fs::read_symlink(folder / "c" / "latest"), third.path().filename());
  }
}

TEST_F(RunFolders, notes_are_read_from_files_alone) {
  const RunFolder run(folder, "c");
  write_note_for_leader(run.path(), 3, "rank 3: lost");
  ASSERT_EQ(::mkfifo((run.path() / "lost-rank-4").c_str(), 0600), 0);
  fs::create_symlink("/dev/zero", run.path() / "lost-rank-5");
  EXPECT_EQ(run.take_notes(), "rank 3: lost");
  EXPECT_FALSE(fs::exists(run.path() / "lost-rank-3"));
}

}  // namespace
}  // namespace p5
