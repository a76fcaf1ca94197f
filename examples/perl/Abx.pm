package Abx;

# A client of the engine of abx for Perl, written from docs/engine-api.md alone; with what Perl brings along, nothing else.
#
#   my $abx = Abx->new(provider => 'local');
#   my $box = $abx->post('/v1/sandboxes', {});
#   my $end = $abx->run($box->{id}, {cmd => ['echo', 'hi']}, sub { my ($channel, $bytes) = @_; print $bytes });
#
# What the engine refuses, and what breaks, dies with an Abx::Error.

use strict;
use warnings;
use Digest::SHA qw(hmac_sha256);
use Fcntl qw(:mode);
use HTTP::Tiny;
use JSON::PP;
use MIME::Base64 qw(decode_base64 encode_base64url);
use Text::ParseWords qw(shellwords);

my $PROTOCOL = 'abx-engine/1';
my $json = JSON::PP->new->utf8->canonical;

# --- errors -------------------------------------------------------------------------------------------------

package Abx::Error {
    use overload '""' => sub { my $e = shift; join(': ', grep { defined } $e->{code}, $e->{message}) . "\n" }, fallback => 1;
    sub new { my ($class, %of) = @_; bless {%of}, $class }
}

sub fail { my ($code, $message) = @_; die Abx::Error->new(code => $code, message => $message) }

# --- finding the engine -----------------------------------------------------------------------------------------

sub home { $ENV{ABX_HOME} // "$ENV{HOME}/.abx" }

# What engine.json says; nothing when there is none.
sub read_file {
    my $path = home() . '/engine.json';
    open(my $in, '<', $path) or return $!{ENOENT} ? undef : fail(undef, "$path: $!");
    my @stat = stat($in);
    fail(undef, "$path belongs to somebody else") if $stat[4] != $>;
    fail(undef, "$path can be read by others") if S_IMODE($stat[2]) & 077;
    my $told = eval { $json->decode(join('', <$in>)) } or fail(undef, "$path is broken");
    fail(undef, "the engine speaks $told->{protocol}, this client $PROTOCOL: run 'abx provider engine restart'")
        if $told->{protocol} ne $PROTOCOL;
    return $told;
}

# Is it the engine that answers there? The token is not sent to anybody else.
sub proves_itself {
    my ($told) = @_;
    open(my $random, '<:raw', '/dev/urandom') or fail(undef, "no random bytes: $!");
    read($random, my $bytes, 24);
    my $nonce = encode_base64url($bytes);
    my $r = HTTP::Tiny->new(timeout => 10)->get("http://127.0.0.1:$told->{port}/v1/health", {headers => {'X-Abx-Nonce' => $nonce}});
    my $want = encode_base64url(hmac_sha256("$PROTOCOL\n$told->{port}\n$nonce", $told->{token}));
    return $r->{status} == 401 && ($r->{headers}{'x-abx-proof'} // '') eq $want;
}

sub start_engine {
    my @abx = shellwords($ENV{ABX_BIN} // 'abx');
    my $pid = fork() // fail(undef, "fork: $!");
    if (!$pid) {
        open(STDOUT, '>', '/dev/null');
        exec(@abx, qw(provider engine serve --detach)) or exit 127;
    }
    waitpid($pid, 0);
    fail(undef, "'@abx provider engine serve --detach' failed") if $?;
}

sub find_engine {
    for my $again (0, 1) {
        my $told = read_file();
        return $told if $told && proves_itself($told);
        start_engine() unless $again;
    }
    fail(undef, 'no engine could be reached');
}

# connection: provider, and what else X-Abx-Connection takes (options, apiKey, …).
sub new {
    my ($class, %connection) = @_;
    my $told = find_engine();
    my %headers = ('Authorization' => "Bearer $told->{token}", 'X-Abx-Connection' => encode_base64url($json->encode(\%connection)));
    return bless {
        base => "http://127.0.0.1:$told->{port}",
        http => HTTP::Tiny->new(timeout => 60, default_headers => \%headers),
    }, $class;
}

# --- requests ----------------------------------------------------------------------------------------------------

sub url {
    my ($self, $path, %query) = @_;
    my $query = %query ? '?' . $self->{http}->www_form_urlencode(\%query) : '';
    return "$self->{base}$path$query";
}

sub check {
    my ($r) = @_;
    return $r if $r->{success};
    fail(undef, $r->{content}) if $r->{status} == 599;    # HTTP::Tiny's own: nothing was answered
    my $told = eval { $json->decode($r->{content}) } or fail(undef, "the engine answered $r->{status}");
    die Abx::Error->new(%{$told->{error}});
}

sub request {
    my ($self, $method, $path, $body, %query) = @_;
    my %options = defined $body ? (content => $json->encode($body), headers => {'Content-Type' => 'application/json'}) : ();
    my $r = check($self->{http}->request($method, $self->url($path, %query), \%options));
    return $json->decode($r->{content});
}

sub get { my ($self, $path, %query) = @_; $self->request('GET', $path, undef, %query) }
sub post { my ($self, $path, $body) = @_; $self->request('POST', $path, $body // {}) }
sub delete { my ($self, $path, %query) = @_; $self->request('DELETE', $path, undef, %query) }

# --- files: any size, never whole in memory --------------------------------------------------------------------------

# more: gives the next bytes, nothing at the end.
sub write_file {
    my ($self, $box, $path, $more) = @_;
    my $r = $self->{http}->request('PUT', $self->url("/v1/sandboxes/$box/files", path => $path),
        {content => $more, headers => {'Content-Type' => 'application/octet-stream'}});
    return $json->decode(check($r)->{content});
}

sub read_file_from {
    my ($self, $box, $path, $take) = @_;
    my $refused = '';
    my $r = $self->{http}->request('GET', $self->url("/v1/sandboxes/$box/files", path => $path),
        {data_callback => sub { my ($bytes, $head) = @_; $head->{status} < 300 ? $take->($bytes) : ($refused .= $bytes) }});
    check({%$r, content => $refused || $r->{content}});
}

# --- streams of events ---------------------------------------------------------------------------------------------

# Follow one: on_event gets name, id and the object of each. 1 when its last event came, 0 when it broke off before.
sub follow {
    my ($self, $method, $path, $body, $headers, $on_event) = @_;
    my ($rest, $refused, $ended, $failure) = ('', '', 0);
    my %options = (headers => {%$headers});
    @options{'content'} = ($json->encode($body)) if $body;
    $options{headers}{'Content-Type'} = 'application/json' if $body;
    $options{data_callback} = sub {
        my ($bytes, $head) = @_;
        if ($head->{status} >= 300) { $refused .= $bytes; return }
        $rest .= $bytes;
        while ($rest =~ s/\A(.*?)\n\n//s) {
            my %event = map { /\A(\w+): (.*)\z/s ? ($1, $2) : () } split(/\n/, $1);
            next unless exists $event{data};    # a comment
            my $data = $json->decode($event{data});
            if ($event{event} eq 'error' && $data->{error}) { $failure = $data->{error}; next }
            $on_event->($event{event}, $event{id}, $data);
            $ended = 1 if $event{event} =~ /\A(exit|end)\z/;
        }
    };
    my $r = $self->{http}->request($method, $self->url($path), \%options);
    die Abx::Error->new(%$failure) if $failure;
    check({%$r, content => $refused}) if $refused;
    return $ended;
}

# Run a command: on_output gets channel and bytes; the exit event is the answer. It runs in the background of the sandbox, so that
# a connection that breaks loses nothing: what was not delivered is asked for by the id of the last event.
sub run {
    my ($self, $box, $params, $on_output) = @_;
    my $job = $self->post("/v1/sandboxes/$box/processes", {%$params, background => JSON::PP::true});
    my ($last, $exit) = ('0.0');
    for my $try (1 .. 5) {
        my $ended = $self->follow('GET', "/v1/sandboxes/$box/processes/$job->{id}/stream", undef, {'Last-Event-ID' => $last}, sub {
            my ($name, $id, $data) = @_;
            $last = $id if defined $id;
            $exit = $data if $name eq 'exit';
            $on_output->($name, bytes_of($data)) if $name =~ /\A(stdout|stderr)\z/;
        });
        return $exit if $ended;
    }
    fail(undef, 'the connection to the engine breaks again and again');
}

sub bytes_of {
    my ($data) = @_;
    return decode_base64($data->{base64}) if exists $data->{base64};
    my $text = $data->{text};
    utf8::encode($text);
    return $text;
}

1;
