# shellcheck shell=bash
# Bare systems in a folder, Debian 12 and 13 (bookworm, trixie) and Ubuntu (jammy, noble): made by debootstrap, entered with mounts and
# processes of their own. Sourced by empty_root, and for package_test.py.
# shellcheck disable=SC2034  # read where this file is sourced
roots_usage="  P5BENCH_DEBIAN_MIRROR, P5BENCH_UBUNTU_MIRROR  where packages come from; else what this machine's apt uses for the release
  P5BENCH_UBUNTU_KEYRING                        else /usr/share/keyrings/ubuntu-archive-keyring.gpg
  P5BENCH_ROOTS                                 folder to keep roots in: RELEASE-base is used again, RELEASE is made anew"

skip() {
  echo "left out: $*"
  exit 77
}

# The address that apt on this machine has for RELEASE, from either format of its sources.
own_mirror() {  # RELEASE
  cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null |
    awk -v release="$1" '$1 == "deb" { for (i = 2; i < NF; ++i) if ($i ~ /^https?:/ && $(i + 1) == release) print $i }'
  cat /etc/apt/sources.list.d/*.sources 2>/dev/null |
    awk -v release="$1" 'BEGIN { RS = ""; FS = "\n" }
      { uri = ""; found = 0
        for (i = 1; i <= NF; ++i) {
          n = split($i, word, " ")
          if (word[1] == "URIs:") uri = word[2]
          if (word[1] == "Suites:") for (k = 2; k <= n; ++k) if (word[k] == release) found = 1
        }
        if (found && uri != "") print uri }'
}

make_base() {  # RELEASE FOLDER
  local options=(--variant=minbase) mirror script=""
  if [ "$1" = trixie ]; then  # with what is not free: CUDA and NCCL
    mirror=${P5BENCH_DEBIAN_MIRROR:-$(own_mirror bookworm)}
    options+=("--components=main,contrib,non-free,non-free-firmware")
    [ -e /usr/share/debootstrap/scripts/trixie ] || script=/usr/share/debootstrap/scripts/sid
  elif [ "$1" != bookworm ]; then
    mirror=${P5BENCH_UBUNTU_MIRROR-}
    options+=("--components=main,universe" "--keyring=${P5BENCH_UBUNTU_KEYRING:-/usr/share/keyrings/ubuntu-archive-keyring.gpg}")
    [ -e "${options[-1]#--keyring=}" ] || skip "no keyring for $1, set P5BENCH_UBUNTU_KEYRING"
    # A debootstrap older than the release does not know its name; all Ubuntu releases share one script.
    [ -e "/usr/share/debootstrap/scripts/$1" ] || script=/usr/share/debootstrap/scripts/gutsy
  else
    mirror=${P5BENCH_DEBIAN_MIRROR-}
  fi
  mirror=${mirror:-$(own_mirror "$1")}
  mirror=${mirror%%$'\n'*}
  [ -n "$mirror" ] || skip "no mirror known for $1, set P5BENCH_DEBIAN_MIRROR or P5BENCH_UBUNTU_MIRROR"
  rm -rf "$2"
  # shellcheck disable=SC2086
  debootstrap "${options[@]}" "$1" "$2.unfinished" "$mirror" $script
  # What this machine's apt needs to get out (a proxy) is needed in there too.
  apt-config dump | grep -E '^Acquire::(https?::Proxy|Check-(Date|Valid-Until)) ' >"$2.unfinished/etc/apt/apt.conf.d/90outside" || true
  mv "$2.unfinished" "$2"
}

# Runs COMMAND in ROOT with mounts and processes of its own, which go with it. The bind of ROOT onto itself is for programs
# that want / to be a mount point, as `ip netns exec` does. Its /dev is its own, with a few devices of this machine.
enter() {  # ROOT COMMAND...
  # shellcheck disable=SC2016  # the inner shell expands
  unshare --mount --propagation private --pid --fork --kill-child sh -euc '
    root=$1; shift
    mount --bind "$root" "$root"
    mount -t proc proc "$root/proc"
    mount --bind /sys "$root/sys"
    mount -t tmpfs -o mode=755 tmpfs "$root/dev"
    for device in null zero full random urandom tty; do
      : >"$root/dev/$device"
      mount --bind "/dev/$device" "$root/dev/$device"
    done
    mkdir "$root/dev/pts" "$root/dev/shm"
    mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
    mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
    ln -s pts/ptmx "$root/dev/ptmx"
    ln -s /proc/self/fd "$root/dev/fd"
    for stream in 0:stdin 1:stdout 2:stderr; do ln -s "fd/${stream%%:*}" "$root/dev/${stream#*:}"; done
    exec env -i HOME=/root LANG=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin CI=true ${http_proxy:+http_proxy=$http_proxy} \
      chroot "$root" "$@"' sh "$@" </dev/null
}

# Sets `root` to a new one.
make_root() {  # RELEASE FOLDER-FOR-ROOTS
  local program
  [ "$(id -u)" = 0 ] || skip "needs root"
  for program in debootstrap unshare; do
    PATH=$PATH:/usr/sbin:/sbin command -v "$program" >/dev/null || skip "needs $program"
  done
  root=$2/$1
  mkdir -p "$2"
  [ -e "$root-base" ] || make_base "$1" "$root-base"
  rm -rf --one-file-system "$root"
  cp -a "$root-base" "$root"
  cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
}
