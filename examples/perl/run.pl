#!/usr/bin/perl
# A command in a sandbox of its own: its standard input goes there as the file `input`, what it writes comes out as it comes, and so does
# the file `output`, if it made one, at the end.
#
#   run.pl PROVIDER COMMAND...
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Abx;

@ARGV >= 2 or die "usage: run.pl PROVIDER COMMAND...\n";
my ($provider, @command) = @ARGV;
binmode($_) for *STDIN, *STDOUT, *STDERR;
$| = 1;
my $abx = Abx->new(provider => $provider);
my $box = $abx->post('/v1/sandboxes', {metadata => {made => 'by run.pl'}})->{id};
my $exit = eval {
    $abx->write_file($box, 'input', sub { my $n = read(STDIN, my $bytes, 65536); $n ? $bytes : undef });
    $abx->run($box, {cmd => \@command}, sub {
        my ($channel, $bytes) = @_;
        print {$channel eq 'stdout' ? *STDOUT : *STDERR} $bytes;
    });
};
my $failure = $@;
if ($exit) {
    eval { $abx->read_file_from($box, 'output', sub { print $_[0] }) };
    $failure = $@ if ref $@ && ($@->{code} // '') ne 'E3002';    # it made none
}
$abx->delete("/v1/sandboxes/$box");
die $failure if $failure;
exit($exit->{exitCode} // 128);
